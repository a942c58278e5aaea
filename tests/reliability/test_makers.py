"""T-O1: of all that ask for a missing key, one makes it, whatever becomes of the maker."""

from __future__ import annotations

import os
import random
import signal
import statistics
import time
from typing import TYPE_CHECKING, Any, Callable

import pytest

from reliability import crowds
from reliability.crowds import Crowd, Gate, Hangs, Journal, Threads
from tuckbox import Cache, memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reliability.conftest import Trials

pytestmark = [pytest.mark.family("T-O1"), pytest.mark.timeout(120)]

NOTICED_S = 1.0
"""Half of the deaths must be noticed within this time, many times what an idle machine needs. All
must be noticed within `crowds.HANG_S`."""

Asking = Callable[[Any, Callable[[], Any], int], Any]
"""How a member asks a cache for the key, with a maker. It has a number."""


def ask_for_it(cache: Any, make: Callable[[], Any], _number: int) -> Any:
    return cache.get_or_set("k", make)


class Trial:
    """One key, its journal, and crowds that ask for it."""

    def __init__(self, folder: Path, store: str, kind: type | None = None) -> None:
        self.path = str(folder / f"{len(os.listdir(folder))}.tuck")
        self.journal = Journal(folder / f"{len(os.listdir(folder))}.journal")
        self.kind: Any = kind or (Cache if store == "shared" else memory.Cache)
        self.is_shared = store == "shared"
        self.cache = self.open() if self.is_shared else self.kind()

    def open(self) -> Any:
        """What a member uses: a handle of its own, or the only cache of this process."""
        if not self.is_shared:
            return self.cache
        return self.kind(self.path, size="1 MiB", lock_timeout=crowds.HANG_S)

    def crowd(
        self, count: int, make: Callable[[Any, int], Any], ask: Asking = ask_for_it
    ) -> Crowd | Threads:
        """Members that ask; `make` gets the cache and the number of the member."""

        def prepare(number: int) -> Callable[[], Any]:
            cache = self.open()
            return lambda: ask(cache, lambda: make(cache, number), number)

        return (Crowd if self.is_shared else Threads)(count, prepare)

    def takes(self, seconds: float, kills: int = 0) -> Callable[[Any, int], Any]:
        """A maker that takes so long; the first `kills` ones wait until they are killed."""

        def make(_cache: Any, number: int) -> int:
            self.journal.note("begins")
            is_killed = sum(note.what == "begins" for note in self.journal.notes()) <= kills
            time.sleep(1000 if is_killed else seconds)
            self.journal.note("ends")
            return number

        return make

    def runs(self) -> int:
        """How many makers ran, no two of them at a time.

        Raises:
            AssertionError: Two ran at a time.
        """
        notes = [note for note in self.journal.notes() if note.what in {"begins", "ends", "killed"}]
        for number, note in enumerate(notes):
            is_begin = note.what == "begins"
            assert is_begin == (number % 2 == 0), f"two makers at a time: {notes}"
        return len(notes) // 2

    def close(self) -> None:
        self.journal.close()
        if self.is_shared:
            assert self.cache.check().is_sound
            self.cache.close()


@pytest.fixture
def trial(tmp_path: Path, store: str) -> Iterator[Trial]:
    one = Trial(tmp_path, store)
    yield one
    one.close()


RUNS_ON = ("shared", "memory")


def one_makes(trial: Trial, count: int, seconds: float) -> int:
    """A crowd asks for a missing key."""
    with trial.crowd(count, trial.takes(seconds)) as crowd:
        answers = crowd.answers()
        values = {answer.value for answer in answers}
        assert not any(answer.error for answer in answers), answers
    assert trial.runs() == 1, f"{trial.runs()} makers ran"
    assert len(values) == 1, "several values"
    assert trial.cache.get("k") in values, "the value was not stored"
    return count


def test_one_of_a_hundred_makes(trial: Trial, trials: Trials) -> None:
    trials.add(one_makes(trial, 100, 1 if trial.is_shared else 0.3), "callers")


def makers_die(trial: Trial, count: int, kills: int, seconds: float, delay_s: float) -> list[float]:
    """Kill one maker after the other in the middle. How long it took until another one began."""
    noticed_s = []
    with trial.crowd(count, trial.takes(seconds, kills)) as crowd:
        for number in range(kills):
            maker = trial.journal.wait_for("begins", number + 1)
            assert maker.pid in crowd.pids  # type: ignore[union-attr]
            time.sleep(delay_s)
            killed_s = time.monotonic()
            trial.journal.note("killed", maker.pid)
            os.kill(maker.pid, signal.SIGKILL)
            noticed_s.append(trial.journal.wait_for("begins", number + 2).at_s - killed_s)
        answers = crowd.answers(dead=kills)  # type: ignore[call-arg]
    assert not any(answer.error for answer in answers), answers
    assert trial.runs() == kills + 1, f"{trial.runs()} makers ran, of which {kills} were killed"
    assert {answer.value for answer in answers} == {trial.cache.get("k")}
    return noticed_s


def check_noticed(noticed_s: list[float], trials: Trials | None = None) -> None:
    if trials:
        trials.figure("median_noticed_ms", round(1000 * statistics.median(noticed_s), 1))
        trials.figure("longest_noticed_ms", round(1000 * max(noticed_s), 1))
    assert statistics.median(noticed_s) <= NOTICED_S, f"deaths are noticed after {noticed_s} s"


@pytest.mark.shared_file
def test_one_of_a_hundred_makes_after_the_maker_was_killed(trial: Trial, trials: Trials) -> None:
    makers_die(trial, 100, 1, 1, 0.5)
    trials.add(100, "callers")
    trials.add(1, "killed makers")


def storm(folder: Path, rounds: int, seed: int, kind: type | None = None) -> list[float]:
    """Crowds whose makers are killed at any moment. How long each death was not noticed."""
    dice = random.Random(seed)
    noticed_s = []
    for _ in range(rounds):
        trial = Trial(folder, "shared", kind)
        count, kills = dice.randint(6, 12), dice.randint(1, 4)
        noticed_s += makers_die(trial, count, kills, 0.02, dice.random() / 10)
        trial.close()
    return noticed_s


def test_makers_that_are_killed_at_any_moment(
    tmp_path: Path, trials: Trials, size: Any, seed: int
) -> None:
    noticed_s = storm(tmp_path, size(8, 400), seed)
    trials.add(len(noticed_s), "killed makers")
    check_noticed(noticed_s, trials)


def test_makers_that_raise(trial: Trial, trials: Trials) -> None:
    """Each caller gets its own error, and the next one makes. The last one does not raise."""
    count = 20

    def make(cache: Any, number: int) -> int:
        trial.journal.note("begins")
        runs = sum(note.what == "begins" for note in trial.journal.notes())
        trial.journal.note("ends")
        if runs < count // 2:
            raise ValueError(number)
        return 1

    with trial.crowd(count, make) as crowd:
        errors = [answer.error for answer in crowd.answers()]
    assert (errors.count("ValueError"), errors.count("")) == (count // 2 - 1, count // 2 + 1)
    assert trial.runs() == count // 2
    trials.add(count, "callers")


def test_makers_that_raise_where_there_is_a_stale_value(
    trial: Trial, trials: Trials, caplog: pytest.LogCaptureFixture
) -> None:
    def make(cache: Any, number: int) -> int:
        trial.journal.note("begins")
        trial.journal.note("ends")
        raise ValueError(number)

    trial.cache.set("k", "old", tags=["t"])
    trial.cache.evict(tag="t", soft=True)
    with trial.crowd(20, make) as crowd:
        assert {answer.value for answer in crowd.answers()} == {"old"}
    assert 1 <= trial.runs() <= 20
    trials.add(20, "callers")


def hang(trial: Trial, timeout: float) -> tuple[list[crowds.Answer], list[crowds.Answer]]:
    """The maker hangs. What ten callers got, and ten that only sleep for as long; then the maker
    goes on, and its value is stored."""
    gate = Gate()

    def make(_cache: Any, number: int) -> int:
        trial.journal.note("begins")
        gate.pass_through()
        trial.journal.note("ends")
        return number

    def ask(cache: Any, make: Callable[[], Any], number: int) -> Any:
        if trial.is_shared:
            gate.open()  # For this process.
        if number >= 10:
            return time.sleep(timeout) or "slept"
        return cache.get_or_set("k", make, timeout=timeout)

    with trial.crowd(20, make, ask) as crowd:
        answers = crowd.answers()
        assert trial.cache._wait_made("k", 0) is False, "the lease has ended"
        gate.open()
        assert trial.cache._wait_made("k", crowds.HANG_S) is True, "the lease has not ended"
    gate.forget()
    assert trial.runs() == 1, f"{trial.runs()} makers ran"
    assert trial.cache.get("k") in range(10), "the value was not stored"
    slept = [answer for answer in answers if answer.value == "slept"]
    return [answer for answer in answers if answer.value != "slept"], slept


def test_makers_that_hang(trial: Trial, trials: Trials) -> None:
    """A loaded machine delays those that sleep as well."""
    answers, slept = hang(trial, 0.3)
    assert {answer.error for answer in answers} == {"LoadTimeout"}
    assert min(answer.waited_s for answer in answers) >= 0.3
    late_s = statistics.median(answer.waited_s for answer in answers)
    late_s -= statistics.median(answer.waited_s for answer in slept)
    assert late_s <= NOTICED_S, f"timeout=0.3 ended {late_s} s late"
    trials.add(10, "callers")


def test_makers_that_hang_where_there_is_a_stale_value(trial: Trial, trials: Trials) -> None:
    trial.cache.set("k", "old", tags=["t"])
    trial.cache.evict(tag="t", soft=True)
    answers, _ = hang(trial, 0.3)
    assert {answer.value for answer in answers} == {"old"}
    waited_s = sorted(answer.waited_s for answer in answers)
    assert waited_s[-1] >= 0.3, "nobody was the maker"
    assert statistics.median(waited_s) < 0.3, f"a stale value was served after {waited_s}"
    trials.add(10, "callers")


def fork(trial: Trial, *, is_killed: bool) -> None:
    """The maker forks. Its child returns from the maker, too, and outlives a parent that dies."""
    ends = Gate()

    def make(_cache: Any, number: int) -> Any:
        trial.journal.note("begins")
        if trial.journal.notes()[-1].pid != trial.journal.wait_for("begins", 1).pid:
            return number
        pid = os.fork()
        if pid == 0:
            return "of the child"
        trial.journal.wait_for("returned", 1)
        if is_killed:
            os.kill(os.getpid(), signal.SIGKILL)
        trial.journal.note("ends")
        return number

    def ask(cache: Any, make: Callable[[], Any], number: int) -> Any:
        ends.open()  # For this process.
        parent = os.getpid()
        value = cache.get_or_set("k", make)
        if os.getpid() != parent:
            trial.journal.note("returned" if value == "of the child" else "wrong")
            ends.pass_through()
            os._exit(0)
        return value

    with trial.crowd(20, make, ask) as crowd:
        if is_killed:
            trial.journal.wait_for("begins", 2)
            answers = crowd.answers(dead=1)  # type: ignore[call-arg]
        else:
            answers = crowd.answers()
        ends.open()
    ends.forget()
    assert {answer.value for answer in answers} == {trial.cache.get("k")}
    kinds = [note.what for note in trial.journal.notes()]
    assert (kinds.count("begins"), kinds.count("returned")) == (1 + is_killed, 1)


@pytest.mark.shared_file
@pytest.mark.parametrize("is_killed", [False, True], ids=["lives", "killed"])
def test_makers_that_fork(trial: Trial, is_killed: bool, trials: Trials) -> None:
    fork(trial, is_killed=is_killed)
    trials.add(20, "callers")


@pytest.mark.shared_file
def test_handles_that_are_closed_while_they_make(trial: Trial, trials: Trials) -> None:
    """The lease ends at once, while the maker still runs."""
    gate = Gate()

    def make(cache: Any, number: int) -> int:
        trial.journal.note("begins")
        if len(trial.journal.notes()) == 1:
            cache.close()
            gate.pass_through()
        return number

    def ask(cache: Any, make: Callable[[], Any], number: int) -> Any:
        gate.open()  # For this process.
        return cache.get_or_set("k", make)

    with trial.crowd(20, make, ask) as crowd:
        trial.journal.wait_for("begins", 2)
        assert trial.cache._wait_made("k", crowds.HANG_S)
        gate.open()
        errors = [answer.error for answer in crowd.answers()]
    gate.forget()
    assert sorted(errors) == [""] * 19 + ["CacheClosed"]
    assert len(trial.journal.notes()) == 2
    trials.add(20, "callers")


@pytest.mark.shared_file
@pytest.mark.parametrize("is_killed", [False, True], ids=["lives", "killed"])
def test_makers_of_several_keys(trial: Trial, is_killed: bool, trials: Trials) -> None:
    """Twenty processes ask for ten of thirty keys each. Each key is made once; those of a maker
    that was killed, once more."""

    def ask(cache: Any, make: Callable[[], Any], number: int) -> Any:
        def make_many(keys: list[int]) -> dict[int, Any]:
            for key in keys:
                trial.journal.note(f"makes:{key}")
            trial.journal.note("makes")
            runs = sum(note.what == "makes" for note in trial.journal.notes())
            time.sleep(1000 if is_killed and runs == 1 else 0.02)
            return {key: [key, number] for key in keys}

        keys = random.Random(number).sample(range(30), 10)
        found = cache.get_or_set_many(keys, make_many)
        assert list(found) == keys
        return found

    with trial.crowd(20, lambda _cache, _number: None, ask) as crowd:
        maker = trial.journal.wait_for("makes", 1)
        if is_killed:
            os.kill(maker.pid, signal.SIGKILL)
        answers = crowd.answers(dead=1) if is_killed else crowd.answers()  # type: ignore[call-arg]
        assert not any(answer.error for answer in answers), answers
    stored = trial.cache.get_many(range(30))
    assert all(answer.value.items() <= stored.items() for answer in answers), "not stored"
    makes = [note for note in trial.journal.notes() if note.what.startswith("makes:")]
    of_living = [note.what for note in makes if note.pid != maker.pid or not is_killed]
    assert len(set(of_living)) == len(of_living), f"made twice: {makes}"
    trials.add(20, "callers")


# Caches that must be caught.


class EachForItself(Cache):
    """Whoever misses makes."""

    def get_or_set(self, key: Any, make: Any, *_: Any, **__: Any) -> Any:  # type: ignore[override]
        value = self.get(key)
        if value is None:
            self[key] = value = make()
        return value


class KeepsNothing(Cache):
    def _finish(self, token: Any, *_: Any) -> bool:
        self._abandon(token)
        return False


class WaitsForTheDead(Cache):
    """Notices no death."""

    def _begin(self, key: Any, force: bool) -> Any:
        while True:
            state = super()._begin(key, force)
            if state[2] is None or self.add("maker", os.getpid()) or crowds.HANG_S == 0:
                return state
            self._abandon(state[2])
            time.sleep(0.001)


class NoticesLate(Cache):
    def _wait_made(self, key: Any, timeout_s: float) -> bool:
        time.sleep(2 * NOTICED_S)
        return True


@pytest.mark.parametrize("kind", [EachForItself, KeepsNothing])
def test_a_cache_with_many_makers_is_caught(kind: type, tmp_path: Path) -> None:
    trial = Trial(tmp_path, "shared", kind)
    with pytest.raises(AssertionError, match=r"makers ran|two makers"):
        one_makes(trial, 10, 0.05)
    trial.close()


def test_a_cache_that_waits_for_the_dead_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crowds, "HANG_S", 1)
    with pytest.raises(Hangs):
        storm(tmp_path, 1, 1, WaitsForTheDead)


def test_a_cache_that_notices_deaths_late_is_caught(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="are noticed after"):
        check_noticed(storm(tmp_path, 1, 1, NoticesLate))
