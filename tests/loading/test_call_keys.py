"""Which calls share a key, and what an argument becomes in it."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import os
import subprocess
import sys
import uuid
from collections import namedtuple
from decimal import Decimal
from pathlib import Path
from typing import Any, Callable
from zoneinfo import ZoneInfo

import pytest

from tuckbox import registry
from tuckbox.arguments import Call, part_of
from tuckbox.errors import InvalidArgument, KeyTypeError


def keys_of(function: Callable[..., Any], *, typed: bool = False, ignore: Any = ()) -> Any:
    return Call(function, "f", typed=typed, ignore=ignore).key


def test_calls_that_bind_the_same_arguments_share_a_key() -> None:
    def f(a: Any, b: Any = 2, *, c: Any = 3) -> None: ...

    key = keys_of(f)
    assert key(1) == ("f", 1, 2, 3)
    assert {key(1), key(a=1), key(1, 2), key(1, b=2), key(b=2, a=1), key(1, c=3)} == {key(1)}
    assert len({key(1), key(2), key(1, 3), key(1, c=4), key(2, 1)}) == 5


def test_star_arguments_take_part() -> None:
    def f(a: Any = 0, *rest: Any, c: Any = 3, **names: Any) -> None: ...

    key = keys_of(f)
    assert key(1, x=1, y=2) == key(a=1, y=2, x=1)
    assert key(1, 2, 3) == ("f", 1, ("tuple", 2, 3), 3, ("dict",))
    assert len({key(1), key(1, 2), key(1, (2,)), key(1, 2, 3), key(1, x=2), key(1, y=2)}) == 6


def test_parameters_that_are_positional_only() -> None:
    def f(a: Any, /, b: Any = 1, **names: Any) -> None: ...

    def g(a: Any, b: Any = 5, /) -> None: ...

    assert keys_of(f)(1, a=2) == ("f", 1, 1, ("dict", ("tuple", "a", 2)))
    assert keys_of(g)(1) == ("f", 1, 5)
    with pytest.raises(TypeError):
        keys_of(g)(a=1)


@pytest.mark.parametrize(
    ("arguments", "names", "message"),
    [
        ((), {}, r"missing 1 required positional argument: 'a'"),
        ((1, 2, 3), {}, r"takes from 1 to 2 positional arguments but 3 were given"),
        ((1,), {"a": 1}, r"got multiple values for argument 'a'"),
        ((1,), {"z": 1}, r"got an unexpected keyword argument 'z'"),
    ],
)
def test_wrong_arguments_are_refused_as_python_does(
    arguments: tuple[Any, ...], names: dict[str, Any], message: str
) -> None:
    def report(a: Any, b: Any = 2) -> None: ...

    with pytest.raises(TypeError, match=rf"report\(\) {message}"):
        keys_of(report)(*arguments, **names)


class Color(enum.Enum):
    RED = 1
    ALIAS = 1  # noqa: PIE796


class Level(enum.IntEnum):
    LOW = 1


class Flags(enum.Flag):
    A = 1
    B = 2


Point = namedtuple("Point", "x y")  # noqa: PYI024


@dataclasses.dataclass
class User:
    number: int
    name: str
    session: Any = dataclasses.field(default=None, compare=False)


class Member(User):
    pass


class Row:
    def __init__(self, number: int) -> None:
        self.number = number

    def __tuckbox_key__(self) -> object:
        return ["row", self.number]


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


HERE = __name__
NOON = datetime.datetime(2026, 11, 24, 12)

# These are in files: a change of one is a change for every user.
PARTS: list[tuple[Any, Any]] = [
    ("text", "text"),
    (b"text", b"text"),
    (7, 7),
    (True, 1),
    (1.0, 1),
    (-0.0, 0),
    (1.5, ("float", "1.5")),
    (float("inf"), ("float", "inf")),
    (float("nan"), ("float", "nan")),
    (None, ("None",)),
    (1 + 2j, ("complex", "(1+2j)")),
    (Decimal("1.50"), ("Decimal", "1.50")),
    (bytearray(b"a"), ("bytearray", b"a")),
    ([1, "a"], ("list", 1, "a")),
    ((1, (2,)), ("tuple", 1, ("tuple", 2))),
    ({2, 1}, ("set", 1, 2)),
    (frozenset("ab"), ("set", "a", "b")),
    ({"b": 1, "a": [2]}, ("dict", ("tuple", "b", 1), ("tuple", "a", ("list", 2)))),
    (NOON, ("datetime", "2026-11-24T12:00:00", "", 0)),
    (
        NOON.replace(tzinfo=ZoneInfo("Europe/Berlin")),
        ("datetime", "2026-11-24T12:00:00+01:00", "Europe/Berlin", 0),
    ),
    (datetime.date(2026, 11, 24), ("date", "2026-11-24")),
    (datetime.time(12, 30), ("time", "12:30:00", "", 0)),
    (datetime.timedelta(days=1, seconds=2), ("timedelta", 1, 2, 0)),
    (uuid.UUID(int=1), ("UUID", bytes(15) + b"\x01")),
    (Path("/a/b"), ("path", "/a/b")),
    (Color.RED, (f"{HERE}.Color", "RED")),
    (Color.ALIAS, (f"{HERE}.Color", "RED")),
    (Level.LOW, (f"{HERE}.Level", "LOW")),
    (Flags.A | Flags.B, (f"{HERE}.Flags", 3)),
    (Point(1, 2), (f"{HERE}.Point", 1, 2)),
    (User(1, "Ada", object()), (f"{HERE}.User", 1, "Ada")),
    (Member(1, "Ada"), (f"{HERE}.Member", 1, "Ada")),
    (Row(7), (f"{HERE}.Row", ("list", "row", 7))),
    (User, ("type", f"{HERE}.User")),
]


def name(value: object) -> str:
    """The same in every process, as the order of a set is not."""
    return type(value).__name__ if isinstance(value, (set, frozenset)) else repr(value)[:40]


@pytest.mark.parametrize(("value", "part"), PARTS, ids=name)
def test_the_part_of_an_argument_never_changes(value: Any, part: Any) -> None:
    assert part_of(value) == part


def test_arguments_that_differ_have_different_parts() -> None:
    parts = [part for value, part in PARTS if value is not Color.ALIAS]
    shared = [part for part in parts if parts.count(part) > 1]
    assert shared == [1, 1]  # True and 1.0.


def test_a_part_cannot_be_imitated_by_a_tuple() -> None:
    for value, part in PARTS:
        if isinstance(part, tuple):
            assert part_of(part) != part_of(value)


def test_typed_keeps_equal_numbers_apart() -> None:
    def f(*values: Any) -> None: ...

    key = keys_of(f, typed=True)
    values: list[Any] = [1, 1.0, True, [1], [1.0], [True], {"a": 1}, {"a": 1.0}]
    assert len({key(one) for one in values}) == len(values)
    key = keys_of(f)
    assert len({key(one) for one in values}) == 3


def test_ignored_parameters_take_no_part() -> None:
    def f(self: Any, a: Any, session: Any = None, **names: Any) -> None: ...

    key = keys_of(f, ignore=("self", "session", "names"))
    assert key(object(), 1, session=object(), x=object()) == ("f", 1)
    assert keys_of(f, ignore="self")(object(), 1) == ("f", 1, ("None",), ("dict",))
    with pytest.raises(
        InvalidArgument, match=r"ignore='sesion' is no parameter of f\(\); they are"
    ):
        keys_of(f, ignore=("sesion",))


def test_an_unsupported_argument_is_named() -> None:
    def f(a: Any, user: Any) -> None: ...

    key = keys_of(f)
    message = (
        r"^argument 'user' of f\(\) cannot be part of a key: object objects have no rule; use a "
        r"plain value or a dataclass, .* or pass ignore=\('user',\)$"
    )
    for user in (object(), [object()], {"a": (object(),)}, User(object(), "")):
        with pytest.raises(KeyTypeError, match=message):
            key(1, user)


def test_an_argument_that_contains_itself_is_named() -> None:
    def f(a: Any, tree: Any) -> None: ...

    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(KeyTypeError, match=r"argument 'tree' of f.* is nested too deep"):
        keys_of(f)(1, circle)


@pytest.mark.parametrize(
    "one", ["x" * 1001, b"x" * 1001, list(range(2000)), {str(n): n for n in range(500)}], ids=type
)
def test_a_long_argument_becomes_a_digest(one: Any) -> None:
    kind, digest = part_of(one)  # type: ignore[misc]
    assert (kind, len(digest)) == ("digest", 32)
    assert part_of(one) == part_of(type(one)(one))
    assert part_of([one]) != part_of(one)
    assert part_of(one[:-1] if not isinstance(one, dict) else {**one, "0": 1}) != part_of(one)


def test_digests_are_the_same_in_every_release() -> None:
    digest = part_of("x" * 1001)[1]  # type: ignore[index]
    assert digest.hex() == ("a0f416636fd427900ffbc0930d61034706d2de373d645cb30a79e37c3a837189")


def test_numbers_of_numpy_are_plain() -> None:
    numpy = pytest.importorskip("numpy")
    values = [numpy.int64(7), numpy.float64(7), numpy.uint8(7), numpy.float32(7)]
    assert {part_of(one) for one in values} == {7}
    assert part_of(numpy.bool_(True)) == 1
    assert part_of(numpy.str_("a")) == "a"
    assert len({part_of(one, typed=True) for one in values}) == 4
    with pytest.raises(KeyTypeError):
        part_of(numpy.zeros(3))


def test_registered_types_take_part(monkeypatch: pytest.MonkeyPatch) -> None:
    class Plain:
        def __init__(self, data: Any) -> None:
            self.data = data

    with pytest.raises(KeyTypeError):
        part_of(Plain(1))
    monkeypatch.setitem(registry.by_type, Plain, ("plain", lambda one: one.data))
    assert part_of([Plain(1.0)]) == ("list", ("plain", 1))
    assert part_of(Plain(memoryview(b"a"))) == ("plain", ("memoryview", b"a"))
    monkeypatch.setitem(registry.by_type, User, ("user", repr))
    assert part_of(User(1, "Ada")) == (f"{HERE}.User", 1, "Ada"), "its key changed"


def test_keys_are_the_same_in_every_process() -> None:
    """Sets and dicts of str are in another order where hashes are seeded differently."""
    program = (
        "from tuckbox.arguments import part_of;"
        "print(part_of([set('abcdefgh'), {c: {c} for c in 'hgfedcba'}]))"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in "123"
    }
    assert printed == {f"{part_of([set('abcdefgh'), {c: {c} for c in 'hgfedcba'}])}\n"}
