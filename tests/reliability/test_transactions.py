"""T-X1: a transaction is all or nothing, whoever is killed at any moment of it."""

from __future__ import annotations

import os
import random
import signal
import time
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from reliability.crowds import HANG_S
from tuckbox import Cache
from tuckbox.coordination.ledger import Ledger, _Journal, conflict
from tuckbox.errors import AcquireTimeout

if TYPE_CHECKING:
    from pathlib import Path

    from reliability.conftest import Trials
    from tuckbox.coordination.transactions import Transaction

pytestmark = [pytest.mark.family("T-X1"), pytest.mark.timeout(300)]

WORKERS = 3
ACCOUNTS = 8
MONEY = 400
WAIT_S = 0.05


class Bank:
    """Workers that move money, and what each noted after a transaction had returned.

    Each transaction moves money between accounts, and one more to the account of its process, so
    the whole is always the same, and that account tells how often the process has committed. An
    account without money does not exist.
    """

    def __init__(self, folder: Path, *, evicts: bool = True) -> None:
        self.folder = folder
        self.evicts = evicts
        self.cache = self.open()
        for number in range(ACCOUNTS):
            self.cache.set(("account", number), MONEY // ACCOUNTS, pinned=True)
        self.workers: list[int] = []
        self.audits = 0

    def open(self) -> Cache:
        return Cache(self.folder / "bank.tuck", size="1 MiB", evict=self.evicts)

    def notes(self, pid: int) -> Path:
        return self.folder / f"committed {pid}"

    def deaths(self) -> int:
        """How many were killed at a step after the commit point."""
        path = self.folder / "deaths"
        return len(path.read_bytes()) if path.exists() else 0

    # --- Workers ---------------------------------------------------------------------------------

    def start(self, seed: int) -> None:
        pid = os.fork()
        if pid == 0:
            try:
                self.work(random.Random(seed))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        self.workers.append(pid)

    def work(self, dice: random.Random) -> None:
        if dice.random() < 0.8:
            die_after_steps(dice.randrange(300), self.folder / "deaths")
        cache = self.open()
        with self.notes(os.getpid()).open("ab", buffering=0) as notes:
            while True:
                is_done = cache.transact(lambda t: self.move(t, dice), tries=1_000_000)
                if is_done:
                    notes.write(b"x")
                if self.evicts:
                    cache.set(("fill", dice.getrandbits(32)), "x" * dice.randrange(4000))

    def move(self, t: Transaction, dice: random.Random) -> bool:
        source, *targets = (("account", one) for one in dice.sample(range(ACCOUNTS), 3))
        owned = t.get(source, 0)
        if owned < 5:
            # Others have it.
            return False
        amount = dice.randrange(3, owned + 1)
        own = ("of", os.getpid())
        put(t, own, t.get(own, 0) + 1)
        put(t, source, owned - amount)
        first = dice.randrange(amount)
        for target, share in zip(targets, (first, amount - 1 - first)):
            put(t, target, t.get(target, 0) + share)
        return True

    # --- The judge -------------------------------------------------------------------------------

    def read(self) -> dict[Any, int]:
        """Return the money of all accounts at one moment."""
        keys: list[Any] = [("account", number) for number in range(ACCOUNTS)]
        keys += [("of", pid) for pid in self.workers]

        def function(t: Transaction) -> dict[Any, int]:
            return {key: t.get(key, 0) for key in keys}

        end_s = time.monotonic() + HANG_S
        while True:
            try:
                return self.cache.transact(function, tries=100_000, timeout=WAIT_S)
            except AcquireTimeout:
                assert time.monotonic() < end_s, "the turn of a killed process is never free"

    def audit(self) -> dict[Any, int]:
        self.audits += 1
        money = self.read()
        missing = MONEY - sum(money.values())
        assert missing == 0, f"{missing} of {MONEY} are missing: {money}"
        return money

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        assert os.WIFSIGNALED(status), "a worker has failed"
        noted = len(self.notes(pid).read_bytes()) if self.notes(pid).exists() else 0
        committed = self.audit()["of", pid]
        assert noted <= committed <= noted + 1, f"{committed} committed, {noted} returned"
        # Its money goes back, so that there is always some to move.
        self.cache.transact(lambda t: self.inherit(t, pid), tries=1_000_000)
        self.notes(pid).unlink(missing_ok=True)
        self.workers.remove(pid)

    def inherit(self, t: Transaction, pid: int) -> None:
        own, first = ("of", pid), ("account", 0)
        put(t, first, t.get(first, 0) + t.get(own, 0))
        t.delete(own)

    def run(self, kills: int, seed: int) -> None:
        dice = random.Random(seed)
        try:
            for _ in range(WORKERS):
                self.start(dice.getrandbits(32))
            for _ in range(kills):
                time.sleep(dice.random() / 30)
                self.audit()
                self.kill(dice.choice(self.workers))
                self.start(dice.getrandbits(32))
        finally:
            for pid in list(self.workers):
                with suppress(ProcessLookupError, ChildProcessError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
        self.audit()
        report = self.cache.check()
        assert report.is_sound, report
        self.cache.close()


def put(t: Transaction, key: Any, money: int) -> None:
    if money:
        t.set(key, money, pinned=True)
    else:
        t.delete(key)


def die_after_steps(count: int, deaths: Path) -> None:
    """Kill this process at a step of a commit: more often than by chance between two changes."""
    plain = Ledger.commit
    left = count

    def dying(ledger: Ledger, *args: Any) -> Any:
        nonlocal left
        steps, answer = plain(ledger, *args), None
        error: Exception | None = None
        while True:
            try:
                step = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration as end:
                return end.value
            left -= 1
            if left < 0:
                journal = ledger._space.value("ledger")()
                if isinstance(journal, _Journal) and journal.changes:
                    with deaths.open("ab") as file:
                        file.write(b"x")
                os.kill(os.getpid(), signal.SIGKILL)
            answer = error = None
            try:
                answer = yield step
            except Exception as raised:
                error = raised

    Ledger.commit = dying  # type: ignore[method-assign]


@pytest.mark.parametrize("evicts", [True, False])
def test_processes_that_are_killed(
    tmp_path: Path, trials: Trials, size: Any, seed: int, evicts: bool
) -> None:
    kills = size(200, 20_000)
    bank = Bank(tmp_path, evicts=evicts)
    bank.run(kills, seed)
    trials.add(kills, "killed processes")
    trials.figure("audits" if evicts else "audits without eviction", bank.audits)
    deaths = bank.deaths()
    trials.figure("after the commit point" if evicts else "without eviction", deaths)
    assert deaths, "nobody was killed after the commit point"


# --- Controls ------------------------------------------------------------------------------------


def without_journal(ledger: Ledger, seen: Any, changes: Any) -> Any:
    """Applies without a commit point."""
    with_versions = yield from versions(ledger, seen, changes)
    return _Journal(0, (yield from ledger._mark()), 0.0, with_versions)


def journal_last(ledger: Ledger, seen: Any, changes: Any) -> Any:
    """The journal is written when all is applied."""
    journal = yield from without_journal(ledger, seen, changes)
    for change in journal.changes:
        yield from ledger._apply(change, journal.mark, 0.0)
    if changes:
        yield lambda: ledger._space.store.set("ledger", journal, pinned=True)
    return journal


def without_comparison(ledger: Ledger, seen: Any, changes: Any) -> Any:
    """What was read may have changed."""
    return (yield from COMMITTED(ledger, {}, changes))


COMMITTED = Ledger._committed


def versions(ledger: Ledger, seen: Any, changes: Any) -> Any:
    found = {}
    for key in {**seen, **{change.key: 0 for change in changes}}:
        entry = yield lambda key=key: ledger._store.get_entry(key)
        found[key] = 0 if entry is None else entry.version
        if seen.get(key, found[key]) != found[key]:
            raise conflict(key)
    return tuple(change._replace(version=found[change.key]) for change in changes)


def forgotten(ledger: Ledger) -> Any:
    """A journal of a killed process is dropped."""
    entry = yield ledger._space.entry("ledger")
    if entry is not None and entry.value.changes:
        yield ledger._space.swap("ledger", entry, _Journal(1))
        entry = yield ledger._space.entry("ledger")
    return entry


def everybodys(ledger: Ledger, timeout_s: Any) -> Any:
    """All commit at once, and apply what others are still applying."""
    yield lambda: None
    return ledger._space.store._begin(os.urandom(8), True)[2]


def unguarded(ledger: Ledger, seen: Any, changes: Any) -> Any:
    """The commit point does not look at what was there."""
    journal = yield from without_journal(ledger, seen, changes)
    if changes:
        yield lambda: ledger._space.store.set("ledger", journal, pinned=True)
    return journal


BROKEN = {
    "without journal": {"_committed": without_journal},
    "journal last": {"_committed": journal_last},
    "without comparison": {"_committed": without_comparison},
    "journals are forgotten": {"_settled": forgotten},
    "no turns and no guard": {"_turn": everybodys, "_committed": unguarded},
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_transaction_is_caught(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, broken in BROKEN[kind].items():
        monkeypatch.setattr(Ledger, name, broken)
    with pytest.raises(AssertionError, match=r"are missing|committed, .* returned"):
        Bank(tmp_path).run(2000, 1)
