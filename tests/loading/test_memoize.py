"""`memoize`: functions, methods, and the operations on their results."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from loading.conftest import Crew, Maker
from tuckbox import Result, memory
from tuckbox.errors import InvalidArgument, InvalidTag, InvalidTTL, KeyTypeError, LoadTimeout

if TYPE_CHECKING:
    from tuckbox import Cache, _engine

RUNS_ON = ("shared", "memory", "namespace", "remote")
HERE = __name__

of_module = memory.Cache()


@of_module.memoize()
def shouted(text: str) -> str:
    """Return it loudly."""
    return text.upper()


class Shop:
    """Its functions are pickled by name."""

    def __init__(self, city: str) -> None:
        self.city = city

    @of_module.memoize(ignore=("self",))
    def price(self, item: str) -> str:
        return f"{item} in {self.city}"


@dataclasses.dataclass
class Station:
    city: str
    calls: int = dataclasses.field(default=0, compare=False)


def test_results_are_kept_by_the_arguments_that_are_bound(timed: Cache) -> None:
    calls = []

    @timed.memoize(ttl=60)
    def report(day: int, full: bool = False) -> str:
        calls.append((day, full))
        return f"{day} {full}"

    for _ in range(2):
        assert report(7) == report(day=7) == report(7, False) == report(full=False, day=7)
        assert report(7, True) == "7 True"
    assert calls == [(7, False), (7, True)]


def test_none_is_a_result_that_is_kept(timed: Cache) -> None:
    make = Maker(None)

    @timed.memoize()
    def find(name: str) -> None:
        make()

    assert find("x") is None
    assert find("x") is None
    assert make.calls == 1


def test_results_are_made_again_after_their_ttl(timed: Cache, clock: _engine.ManualClock) -> None:
    make = Maker(1, 2)
    number = timed.memoize(ttl=lambda value: value * 10, name="number")(make)
    assert number() == 1
    clock.advance(9)
    assert number() == 1
    clock.advance(2)
    assert number() == 2
    assert timed.get_entry(number.key()).expiry == pytest.approx(clock.now() + 20, abs=1e-3)


def test_the_operations_take_the_arguments_of_a_call(timed: Cache) -> None:
    make = Maker("first", "second", "third")

    @timed.memoize(ttl=60)
    def report(day: int, full: bool = False) -> str:
        return make()

    name = f"{HERE}.{report.__qualname__}"
    assert report.key(day=7) == (name, 7, 0)
    assert report.peek(7) is None
    assert report(7) == "first"
    assert report.peek(7) == timed[report.key(7)] == "first"
    assert report.refresh(7, full=False) == "second"
    assert report(7) == "second"
    assert report.invalidate(7) is True
    assert report.invalidate(7) is False
    assert report(7) == "third"
    for operation in (report, report.key, report.peek, report.refresh, report.invalidate):
        with pytest.raises(TypeError, match="unexpected keyword argument 'dya'"):
            operation(dya=7)


def test_stale_results_are_kept_for_errors_and_shown_by_peek(
    timed: Cache, clock: _engine.ManualClock
) -> None:
    make = Maker("old", OSError("down"))
    weather = timed.memoize(ttl=60, stale=600, name="weather")(lambda city: make())
    assert weather("Rome") == "old"
    clock.advance(100)
    assert weather("Rome") == "old"
    assert make.calls == 2
    assert weather.peek("Rome") == "old"
    with pytest.raises(OSError, match="down"):
        weather.refresh("Rome")
    clock.advance(600)
    assert weather.peek("Rome") is None


def test_options_reach_the_loading(timed: Cache, crew: Crew) -> None:
    make = Maker(held=True)
    slow = timed.memoize(timeout=0.02, name="slow")(make)
    with pytest.raises(LoadTimeout):
        slow()
    make.opened.set()
    kept = timed.memoize(name="kept", background=True, early=0)(lambda: "kept")
    assert kept() == kept() == "kept"


def test_tags_are_names_or_a_function_of_the_arguments(timed: Cache) -> None:
    @timed.memoize(tags=lambda number, **_: [f"user:{number}", "users"])
    def user(number: int, *, full: bool = False) -> str:
        return f"user {number}"

    @timed.memoize(tags=["all"])
    def everyone() -> Result[str]:
        return Result("everyone", tags=["users"])

    user(7)
    user(8, full=True)
    assert everyone() == "everyone"
    assert timed.get_entry(user.key(7)).tags == ("user:7", "users")
    timed.evict(tag="user:7")
    assert (user.peek(7), user.peek(8, full=True)) == (None, "user 8")
    timed.evict(tag="users")
    assert (user.peek(8, full=True), everyone.peek()) == (None, None)


def test_equal_numbers_share_a_result_unless_typed(timed: Cache) -> None:
    plain = timed.memoize(name="plain")(repr)
    assert [plain(one) for one in (1, 1.0, True)] == ["1", "1", "1"]
    typed = timed.memoize(name="typed", typed=True)(repr)
    assert [typed(one) for one in (1, 1.0, True)] == ["1", "1.0", "True"]


# --- methods -------------------------------------------------------------------------------------


def test_self_takes_part_by_its_rule(timed: Cache) -> None:
    calls = []

    @dataclasses.dataclass
    class Station:
        city: str

        @timed.memoize()
        def report(self, day: int = 1) -> str:
            calls.append(self.city)
            return f"{self.city} {day}"

    rome, oslo = Station("Rome"), Station("Oslo")
    assert [rome.report(), oslo.report(1), Station("Rome").report(day=1)] == [
        "Rome 1", "Oslo 1", "Rome 1"
    ]  # fmt: skip
    assert calls == ["Rome", "Oslo"]
    assert rome.report.key() == Station.report.key(rome) == Station.report.key(self=rome)
    assert rome.report.peek(1) == "Rome 1"
    assert rome.report.invalidate()
    assert (rome.report.peek(), oslo.report.peek()) == (None, "Oslo 1")
    assert rome.report.refresh(day=1) == "Rome 1"


def test_an_object_without_a_rule_says_what_to_do(timed: Cache) -> None:
    class Plain:
        @timed.memoize()
        def report(self) -> str:
            return "report"

    with pytest.raises(
        KeyTypeError, match=r"argument 'self' of .*Plain\.report\(\) .*ignore=\('se"
    ):
        Plain().report()


def test_without_self_all_objects_share_results() -> None:
    of_module.clear()
    assert Shop("Rome").price("bread") == "bread in Rome"
    assert Shop("Oslo").price("bread") == "bread in Rome"
    assert Shop("Oslo").price.key("bread") == (f"{HERE}.Shop.price", "bread")


def test_static_and_class_methods(timed: Cache) -> None:
    class Base:
        @timed.memoize()
        @staticmethod
        def double(number: int) -> int:
            return number * 2

        @timed.memoize()
        @classmethod
        def title(cls, text: str) -> str:
            return f"{cls.__name__} {text}"

        @staticmethod
        @timed.memoize()
        def triple(number: int) -> int:
            return number * 3

        @classmethod
        @timed.memoize()
        def name(cls) -> str:
            return cls.__name__

    class Child(Base):
        pass

    assert (Base.double(2), Base().double(2), Base.double.peek(2)) == (4, 4, 4)
    assert (Base.triple(2), Base().triple(2), Base.triple.peek(2)) == (6, 6, 6)
    assert (Base.title("a"), Base().title("a"), Child.title("a")) == ("Base a", "Base a", "Child a")
    assert (Base.title.peek("a"), Child().title.peek("a")) == ("Base a", "Child a")
    assert (Base.name(), Child.name(), Child().name()) == ("Base", "Child", "Child")


def test_a_bound_method_and_a_partial_may_be_memoized(timed: Cache) -> None:
    class Plain:
        def double(self, number: int) -> int:
            return number * 2

    double = timed.memoize()(Plain().double)
    assert (double(number=2), double.peek(2)) == (4, 4)
    assert double.key(2) == (f"{HERE}.{Plain.double.__qualname__}", 2)
    triple = timed.memoize(name="triple")(
        functools.partial(lambda factor, number: factor * number, 3)
    )
    assert (triple(2), triple.key(2)) == (6, ("triple", 2))


def test_a_property_may_be_memoized(timed: Cache) -> None:
    @dataclasses.dataclass
    class Circle:
        radius: int

        @property
        @timed.memoize()
        def area(self) -> int:
            return self.radius**2 * 3

    assert (Circle(2).area, Circle(2).area) == (12, 12)
    assert len(timed) == 1


# --- what editors and other tools see ------------------------------------------------------------


def test_the_signature_the_name_and_the_documentation_are_kept() -> None:
    assert str(inspect.signature(shouted)) == "(text: 'str') -> 'str'"
    assert shouted.__doc__ == "Return it loudly."
    assert (shouted.__name__, shouted.__module__) == ("shouted", HERE)
    assert repr(shouted).startswith("<memoized <function shouted at")
    shop = Shop("Rome")
    assert str(inspect.signature(shop.price)) == "(item: 'str') -> 'str'"
    assert shop.price.__wrapped__("bread") == "bread in Rome"
    assert "bound method Shop.price" in repr(shop.price)


def test_a_memoized_function_can_be_pickled_and_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, HERE, sys.modules[HERE])
    assert pickle.loads(pickle.dumps(shouted)) is shouted
    assert copy.deepcopy(shouted) is shouted
    bound = pickle.loads(pickle.dumps(Shop("Oslo").price))
    assert bound.__wrapped__("milk") == "milk in Oslo"


def test_names_are_stable(timed: Cache) -> None:
    assert shouted.key("a") == (f"{HERE}.shouted", "a")
    renamed = timed.memoize(name="v2:shout")(shouted.__wrapped__)
    assert renamed.key("a") == ("v2:shout", "a")


def test_the_main_module_has_one_name_however_a_process_starts() -> None:
    program = (
        "from tuckbox import memory\n"
        "def f(): ...\n"
        "f.__module__ = '__mp_main__'\n"
        "print(memory.Cache().memoize()(f).key())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout == "('__main__.f',)\n"


# --- bad input -----------------------------------------------------------------------------------


def test_what_cannot_be_memoized_is_refused_when_it_is_decorated(timed: Cache) -> None:
    def numbers() -> Any:
        yield 1

    async def letters() -> Any:
        yield "a"

    for function, message in [
        (numbers, "is a generator function: return a list"),
        (letters, "is a generator function: return a list"),
        (7, "decorates a function, not 7: write @cache.memoize"),
        (Shop, "decorates a function, not <class"),
        (lambda: 1, "has no name of its own: pass name="),
        (functools.partial(len), "has no name of its own: pass name="),
    ]:
        with pytest.raises(InvalidArgument, match=message):
            timed.memoize()(function)


def test_without_parentheses_the_first_call_says_so(timed: Cache) -> None:
    @timed.memoize
    def report(day: int) -> str:
        return "report"

    with pytest.raises(InvalidArgument, match=r"not 7: write @cache\.memoize\(\) above it"):
        report(7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": ""}, "name must be a str that is not empty, not ''"),
        ({"name": 7}, "name must be a str that is not empty, not 7"),
        ({"timeout": "soon"}, "timeout must be a number or None, not str"),
        ({"early": -1}, "early must be at least 0"),
        ({"ignore": ("nobody",)}, "ignore='nobody' is no parameter"),
    ],
)
def test_wrong_arguments_are_refused_when_decorating(
    timed: Cache, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        timed.memoize(**arguments)(test_names_are_stable)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"tags": "users"}, InvalidTag),
        ({"tags": lambda: "users"}, InvalidTag),
        ({"tags": lambda: [7]}, InvalidTag),
        ({"ttl": "soon"}, InvalidTTL),
        ({"stale": "soon"}, InvalidTTL),
    ],
)
def test_what_the_store_refuses_is_refused_before_the_call(
    timed: Cache, arguments: dict[str, Any], error: type[Exception]
) -> None:
    make = Maker()
    number = timed.memoize(name="number", **arguments)(make)
    with pytest.raises(error):
        number()
    assert make.calls == 0
