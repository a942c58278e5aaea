"""The PHP host, driven by hand: what it answers, what it catches, how it goes."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest

from lab import protocol
from lab.stream import DELETE, GET, SET, Operation
from lab.tests import workers_rules
from lab.tests.talking import (
    SECONDS_MAX,
    Conversation,
    Plan,
    ask_all,
    model,
    needs,
    one_worker,
    open_in,
    prepare,
    replay,
    run_together,
)

LAB = Path(__file__).resolve().parents[1]
HERE = LAB / "tests" / "contestants"
SHIPPED = LAB / "contestants"

pytestmark = needs("php")


class Host(Conversation):
    """One running PHP host, whose files go into `folder`."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        super().__init__(command, folder / "errors.txt")
        self.folder = folder

    def open(self) -> None:
        """Open the store in a folder of its own."""
        store = self.folder / f"store-{time.monotonic_ns()}"
        self.ask(open_in(store, bytes_max=1 << 26), protocol.Opened)


@contextmanager
def started(folder: Path, contestant: Path, form: str = "") -> Iterator[Host]:
    """Start a host for a contestant as host.toml says, and end it."""
    plan = _plan(contestant, form)
    arguments = [part.format(limit_mib=64, limit_bytes=1 << 26) for part in plan["arguments"]]
    fill = {"python": sys.executable, "parent": str(os.getpid()), "arguments": "{arguments}"}
    command: list[str] = []
    for part in tomllib.loads((LAB / "hosts/php/host.toml").read_text())["command"]:
        command += arguments if part == "{arguments}" else [part.format(**fill)]
    with Host(command, folder) as host:
        yield host


def _plan(contestant: Path, form: str) -> dict[str, list[str]]:
    path = contestant / "contestant.toml"
    plan = tomllib.loads(path.read_text()) if path.exists() else {}
    forms = {each["name"]: each for each in plan.get("forms", [])}
    return {"arguments": [], **plan, **forms.get(form, {})}


def load(
    folder: Path,
    contestant: Path,
    *phases: Sequence[Operation],
    value: protocol.ValueKind = "binary",
    seed: int = 1,
    base: int = 1000,
    settings: dict[str, str] | None = None,
    distribution: str = "",
) -> protocol.Load:
    """Write keys and streams and return the request that loads them. Phases follow one another."""
    return Plan(
        folder,
        contestant / "adapter.php",
        one_worker(*phases),
        key_texts(),
        value,
        settings or {},
        distribution,
        seed,
        base,
    ).load()


def key_texts() -> list[str]:
    """Return the texts of all keys."""
    return [f"key-{number:04}" for number in range(200)]


def mixed(count: int, *, fields: bool = False, seed: int = 0) -> list[Operation]:
    """Return gets, sets and deletes over a hundred keys, the same each time."""
    operations = []
    for position in range(seed * count, (seed + 1) * count):
        digest = hashlib.sha256(str(position).encode()).digest()
        verb = (GET, GET, GET, GET, SET, SET, SET, DELETE)[digest[0] % 8]
        size = (digest[2] % 9 if fields else digest[2] * 5) if verb == SET else 0
        operations.append(Operation(verb, digest[1] % 100, size))
    return operations


def sets(keys: int, length: int = 100) -> list[Operation]:
    """Return a set of each key."""
    return [Operation(SET, key, length) for key in range(keys)]


def gets(keys: int) -> list[Operation]:
    """Return a get of each key."""
    return [Operation(GET, key, 0) for key in range(keys)]


# ------------------------------------------------------------------------------------- values

SPYING = """<?php
use Lab\\Host\\Limits;
use Lab\\Host\\Store;
return fn (string $folder, Limits $limits, array $settings): Store => new Store(
    get: fn ($key) => null,
    set: fn ($key, $value) => file_put_contents(
        $settings['seen'], is_array($value) ? json_encode($value, JSON_FORCE_OBJECT) : $value),
    delete: fn ($key) => false,
    close: fn () => null,
);
"""


def seen(folder: Path, length: int, value: protocol.ValueKind) -> bytes:
    """Return what an adapter was given to store for seed 1, key 2, sequence 3."""
    (folder / "adapter.php").write_text(SPYING)
    target = folder / "seen"
    with started(folder, folder) as host:
        request = load(
            folder,
            folder,
            [Operation(SET, 2, length)],
            value=value,
            base=3,
            settings={"seen": str(target)},
        )
        host.ask(request, protocol.Loaded)
        host.open()
        assert host.run(0).actions["set"].count == 1
    return target.read_bytes()


def test_vector_of_16_bytes(tmp_path: Path) -> None:
    assert seen(tmp_path, 16, "binary").hex() == "b735f219bc273e57528ade22a8a2bb15"


def test_vector_of_160_bytes(tmp_path: Path) -> None:
    value = seen(tmp_path, 160, "binary")
    assert len(value) == 160
    assert value[-16:].hex() == "213f8fdc19127ea4b21dc76f14548aac"


def test_vector_of_2_mib(tmp_path: Path) -> None:
    value = seen(tmp_path, 2_222_981, "binary")
    assert len(value) == 2_222_981
    digest = hashlib.sha256(value).hexdigest()
    assert digest == "2ad75dc6464d534612a572b889bba549b7162a70d9530a16125371ca8484cff9"


def test_vector_of_two_fields(tmp_path: Path) -> None:
    fields = json.loads(seen(tmp_path, 2, "complex"))
    assert fields == {"b735f219": "bc273e57528ade22a8a2", "bb1548b8": "9e31e28cd7993e26c5b5"}


# ---------------------------------------------------------------------------------- an honest one


@pytest.mark.parametrize("value", ["binary", "complex"])
def test_an_honest_contestant_passes(tmp_path: Path, value: protocol.ValueKind) -> None:
    operations = mixed(1000, fields=value == "complex")
    first, second = operations[:600], operations[600:]
    with started(tmp_path, HERE / "php_honest") as host:
        loaded = host.ask(
            load(tmp_path, HERE / "php_honest", first, second, value=value), protocol.Loaded
        )
        assert loaded.runtime.startswith("PHP 8")
        assert len(loaded.timer_ns) == 1000
        # Not every clock goes on between two looks at it.
        assert all(difference >= 0 for difference in loaded.timer_ns)
        assert loaded.create_ns > 0
        host.open()
        written = host.ask(protocol.ProbeWrite(), protocol.Probed)
        assert (written.keys, written.refused) == (64, 0)
        read = host.ask(protocol.ProbeRead([0]), protocol.Probed)
        assert (read.keys, read.verdict) == (64, protocol.Verdict())
        host.ask(protocol.Close(), protocol.Closed)
        host.open()
        known: set[int] = set()
        for phase, part in enumerate((first, second)):
            ran = host.run(phase, "throughput", stretch=256)
            assert ran.verdict.wrong == ran.verdict.stale == ran.verdict.lost == 0, ran.verdict
            assert ran.actions == model(part, known)
            assert ran.done == len(part)
            assert len(ran.blocks_ns) == len(part) // 64
            assert 0 < sum(ran.blocks_ns) < ran.elapsed_ns < ran.ended_ns - ran.started_ns
            assert ran.cpu_ns > 0
        host.ask(protocol.Close(), protocol.Closed)
        assert host.process.stdin is not None
        host.process.stdin.close()
        assert host.process.wait(SECONDS_MAX) == 0
    assert "an adapter may print" in (tmp_path / "errors.txt").read_text()


def test_an_untimed_pass_has_no_times(tmp_path: Path) -> None:
    with started(tmp_path, HERE / "php_honest") as host:
        host.ask(load(tmp_path, HERE / "php_honest", sets(100)), protocol.Loaded)
        host.open()
        ran = host.run(0)
    assert (ran.started_ns, ran.ended_ns, ran.elapsed_ns, ran.cpu_ns) == (0, 0, 0, 0)
    assert ran.blocks_ns == []
    assert (ran.done, ran.actions["set"].count) == (100, 100)


def test_a_latency_pass_writes_each_duration(tmp_path: Path) -> None:
    with started(tmp_path, HERE / "php_honest") as host:
        host.ask(load(tmp_path, HERE / "php_honest", mixed(500)), protocol.Loaded)
        host.open()
        durations = tmp_path / "durations"
        ran = host.run(0, "latency", warmup=100, durations=str(durations))
    durations_ns = struct.unpack("<400Q", durations.read_bytes())
    assert sum(durations_ns) < ran.elapsed_ns
    assert min(durations_ns) > 0
    assert ran.cpu_ns > 0
    assert ran.blocks_ns == []


def test_the_warm_up_is_checked_and_not_counted(tmp_path: Path) -> None:
    with started(tmp_path, HERE / "php_wrong_value") as host:
        operations = [*sets(100), *gets(100), *gets(10)]
        host.ask(load(tmp_path, HERE / "php_wrong_value", operations), protocol.Loaded)
        host.open()
        ran = host.run(0, "throughput", warmup=200, block=64)
    assert ran.done == 210
    assert ran.actions == {
        "get": protocol.Tally(count=10),
        "set": protocol.Tally(),
        "delete": protocol.Tally(),
    }
    assert ran.verdict.wrong == 2
    assert ran.blocks_ns == []


def test_a_stretch_is_obeyed_without_a_pause_and_checked_afterwards(tmp_path: Path) -> None:
    operations = mixed(1000)
    with started(tmp_path, HERE / "php_honest") as host:
        host.ask(load(tmp_path, HERE / "php_honest", operations), protocol.Loaded)
        host.open()
        ran = host.run(0, "throughput", block=64, stretch=1000)
    assert ran.actions == model(operations, set())
    # The rest of 40 operations is no full block.
    assert (ran.done, len(ran.blocks_ns)) == (1000, 15)
    assert sum(ran.blocks_ns) < ran.elapsed_ns == ran.ended_ns - ran.started_ns


def test_a_pass_waits_for_its_start(tmp_path: Path) -> None:
    with started(tmp_path, HERE / "php_honest") as host:
        host.ask(load(tmp_path, HERE / "php_honest", sets(10)), protocol.Loaded)
        host.open()
        host.ask(prepare(0, "throughput"), protocol.Prepared)
        start_ns = time.monotonic_ns() + 300_000_000
        ran = host.ask(protocol.Run(start_ns, ""), protocol.Ran)
        assert start_ns <= ran.started_ns < ran.ended_ns <= time.monotonic_ns()


def test_phases_run_in_their_order(tmp_path: Path) -> None:
    with started(tmp_path, HERE / "php_honest") as host:
        host.ask(load(tmp_path, HERE / "php_honest", sets(10), gets(10)), protocol.Loaded)
        host.open()
        host.run(1)
        assert "phase 0 comes after phase 1" in host.ask(prepare(0), protocol.Failed).reason


def test_large_values_are_not_kept(tmp_path: Path) -> None:
    operations = [Operation(SET, key % 100, 2_000_000) for key in range(400)]
    with started(tmp_path, SHIPPED / "php_null") as host:
        host.ask(load(tmp_path, SHIPPED / "php_null", operations), protocol.Loaded)
        host.open()
        assert host.run(0, "throughput", block=16).done == 400
        status = Path(f"/proc/{host.process.pid}/status").read_text("ascii")
    peak_kb = int(next(line.split()[1] for line in status.splitlines() if "VmHWM" in line))
    # All of them would be 800 MB.
    assert peak_kb < 250_000


def test_a_pass_ends_when_its_time_is_up(tmp_path: Path) -> None:
    with started(tmp_path, HERE / "php_honest") as host:
        host.ask(load(tmp_path, HERE / "php_honest", mixed(1000)), protocol.Loaded)
        host.open()
        ran = host.run(0, "throughput", block=50, seconds_max=0.0)
    assert ran.done == 50
    assert sum(tally.count for tally in ran.actions.values()) == 50


def test_a_replay_counts_its_hits(tmp_path: Path) -> None:
    requests = [Operation(GET, key, 500) for key in [*range(100), *range(50), *range(150)]]
    with started(tmp_path, SHIPPED / "php_sqlite") as host:
        host.ask(load(tmp_path, SHIPPED / "php_sqlite", requests), protocol.Loaded)
        host.open()
        assert replay(host, 300) == protocol.Replayed(150, 0, protocol.Verdict())


# ------------------------------------------------------------------------------- what is caught


def caught(folder: Path, name: str, value: protocol.ValueKind = "binary") -> list[protocol.Verdict]:
    """Return the verdicts of the probe and of a pass."""
    with started(folder, HERE / name) as host:
        operations = mixed(2000, fields=value == "complex")
        host.ask(load(folder, HERE / name, operations, value=value), protocol.Loaded)
        host.open()
        host.ask(protocol.ProbeWrite(), protocol.Probed)
        probed = host.ask(protocol.ProbeRead([0]), protocol.Probed)
        host.ask(protocol.Close(), protocol.Closed)
        host.open()
        ran = host.run(0)
        assert sum(tally.wrong for tally in ran.actions.values()) == ran.verdict.wrong
        return [probed.verdict, ran.verdict]


def test_a_wrong_value_is_caught(tmp_path: Path) -> None:
    _, ran = caught(tmp_path, "php_wrong_value")
    assert ran.wrong > 5
    assert len(ran.examples) == 5
    assert "that nobody stored" in ran.examples[0]


def test_a_dropped_write_is_caught_as_lost(tmp_path: Path) -> None:
    probed, ran = caught(tmp_path, "php_drops_writes")
    assert probed.lost > 2
    assert ran.wrong == ran.stale == 0


def test_a_store_that_never_forgets_is_caught_by_the_probe(tmp_path: Path) -> None:
    (tmp_path / "adapter.php").write_text(
        SCRIPTED.replace("unset($entries[$key]);", "/* it stays */")
    )
    with started(tmp_path, tmp_path) as host:
        host.ask(load(tmp_path, tmp_path, settings={"script": "[]"}), protocol.Loaded)
        host.open()
        host.ask(protocol.ProbeWrite(), protocol.Probed)
        verdict = host.ask(protocol.ProbeRead([0]), protocol.Probed).verdict
    assert (verdict.wrong, verdict.stale, verdict.lost) == (0, 16, 0)


def test_a_new_store_is_known_to_be_empty(tmp_path: Path) -> None:
    with started(tmp_path, HERE / "php_honest") as host:
        host.ask(load(tmp_path, HERE / "php_honest", sets(50), gets(50)), protocol.Loaded)
        host.open()
        host.run(0)
        assert host.run(1).actions["get"] == protocol.Tally(count=50)
        host.ask(protocol.Close(), protocol.Closed)
        host.open()
        assert host.run(1).actions["get"] == protocol.Tally(count=50, miss=50, absent=50)


@pytest.mark.parametrize("value", ["binary", "complex"])
def test_an_old_value_is_caught_as_stale(tmp_path: Path, value: protocol.ValueKind) -> None:
    for verdict in caught(tmp_path, "php_stale", value):
        assert verdict.stale > 2
        assert verdict.wrong == 0


def test_a_dying_adapter_ends_its_host(tmp_path: Path) -> None:
    with started(tmp_path, HERE / "php_dies") as host:
        host.ask(load(tmp_path, HERE / "php_dies", gets(150), gets(150)), protocol.Loaded)
        host.open()
        host.run(0)
        host.ask(prepare(1), protocol.Prepared)
        host.send(msgspec.json.encode(protocol.Run(0, "")))
        assert host.hear() == b""
        assert host.process.wait(SECONDS_MAX) == -signal.SIGKILL


def test_a_hanging_adapter_answers_nothing_and_can_be_killed(tmp_path: Path) -> None:
    with started(tmp_path, HERE / "php_hangs") as host:
        host.ask(load(tmp_path, HERE / "php_hangs", gets(150), gets(150)), protocol.Loaded)
        host.open()
        host.run(0)
        host.ask(prepare(1), protocol.Prepared)
        host.send(msgspec.json.encode(protocol.Run(0, "")))
        with pytest.raises(TimeoutError):
            host.hear(seconds_max=1.0)


SCRIPTED = """<?php
use Lab\\Host\\Limits;
use Lab\\Host\\Store;
// Keeps what it is given, but answers what the settings say where they say something.
return function (string $folder, Limits $limits, array $settings): Store {
    $script = json_decode($settings['script'], true);
    $entries = [];
    $given = [];
    $turn = -1;
    $says = function () use (&$turn, $script) { return $script[++$turn] ?? 'honest'; };
    return new Store(
        get: function ($key) use (&$entries, &$given, $says) {
            $answer = $says();
            if (is_int($answer)) {
                return $given[$answer];
            }
            return match ($answer) {
                'honest' => $entries[$key] ?? false,
                'nothing' => null,
                'garbage' => 'never stored by anybody',
                'number' => 17,
            };
        },
        set: function ($key, $value) use (&$entries, &$given, $says) {
            $given[] = $value;
            if ($says() === 'refuse') {
                return false;
            }
            $entries[$key] = $value;
            return true;
        },
        delete: function ($key) use (&$entries, $says) {
            $answer = $says();
            if ($answer === 'deny') {
                return 0;
            }
            $found = isset($entries[$key]);
            unset($entries[$key]);
            return (int) $found;
        },
        close: fn () => null,
    );
};
"""

# One key. A set is followed by what the adapter says, a get by it and by how it must be counted.
CASES: dict[str, list[tuple[int, object, str]]] = {
    "never stored": [(GET, "nothing", "absent")],
    "an honest hit": [(SET, "honest", ""), (GET, "honest", "hit")],
    "evicted": [(SET, "honest", ""), (GET, "nothing", "miss")],
    "garbage": [(SET, "honest", ""), (GET, "garbage", "wrong")],
    "not even bytes": [(SET, "honest", ""), (GET, "number", "wrong")],
    "garbage from nothing": [(GET, "garbage", "wrong")],
    "overwritten": [(SET, "honest", ""), (SET, "honest", ""), (GET, 0, "stale"), (GET, 1, "hit")],
    "deleted": [(SET, "honest", ""), (DELETE, "honest", ""), (GET, 0, "stale")],
    "deleted and gone": [(SET, "honest", ""), (DELETE, "honest", ""), (GET, "nothing", "absent")],
    "a denied delete may have been one": [
        (SET, "honest", ""),
        (DELETE, "deny", ""),
        (GET, "nothing", "absent"),
        (GET, 0, "hit"),
    ],
    "a refused set leaves the old value": [
        (SET, "honest", ""),
        (SET, "refuse", ""),
        (GET, 0, "hit"),
        (GET, "nothing", "miss"),
    ],
    "a refused set stored nothing": [(SET, "refuse", ""), (GET, 0, "wrong")],
    "a set after a refusal": [
        (SET, "refuse", ""),
        (SET, "honest", ""),
        (GET, "nothing", "miss"),
        (GET, 1, "hit"),
    ],
    "an entry is back after its delete": [
        (SET, "honest", ""),
        (SET, "refuse", ""),
        (DELETE, "honest", ""),
        (GET, 0, "stale"),
    ],
}


@pytest.mark.parametrize("name", CASES)
def test_what_an_answer_counts_as(tmp_path: Path, name: str) -> None:
    steps = CASES[name]
    (tmp_path / "adapter.php").write_text(SCRIPTED)
    operations = [Operation(verb, 7, 30 if verb == SET else 0) for verb, _, _ in steps]
    with started(tmp_path, tmp_path) as host:
        script = json.dumps([says for _, says, _ in steps])
        host.ask(load(tmp_path, tmp_path, operations, settings={"script": script}), protocol.Loaded)
        host.open()
        ran = host.run(0)
    counts = [counts for _, _, counts in steps]
    tally = ran.actions["get"]
    assert tally.count == len([verb for verb, _, _ in steps if verb == GET])
    assert tally.miss == counts.count("miss") + counts.count("absent")
    assert tally.absent == counts.count("absent")
    assert tally.wrong == ran.verdict.wrong == counts.count("wrong")
    assert ran.verdict.stale == counts.count("stale")
    assert ran.actions["set"].miss == [says for _, says, _ in steps].count("refuse")


def test_a_short_answer_is_a_weak_check(tmp_path: Path) -> None:
    operations = [Operation(SET, 1, 7), Operation(SET, 2, 8), *gets(3)]
    with started(tmp_path, HERE / "php_honest") as host:
        host.ask(load(tmp_path, HERE / "php_honest", operations), protocol.Loaded)
        host.open()
        assert host.run(0).verdict == protocol.Verdict(weak=1)


def sequence_of_a_number(seed: int, key: int) -> int:
    """Return a sequence whose complex value of one field is a number to PHP, as "12e3" is."""
    for sequence in itertools.count():
        head = hashlib.sha512(struct.pack("<QQQ", seed, key, sequence)).hexdigest()
        # A large exponent would make it infinite.
        if re.fullmatch(r"\d+e0*\d{1,2}", head[8:28]):
            return sequence
    raise AssertionError


def test_fields_that_php_would_hold_equal_are_not(tmp_path: Path) -> None:
    # "12e3" == "12e3 " holds in PHP.
    (tmp_path / "adapter.php").write_text(
        SCRIPTED.replace(
            "'honest' => $entries[$key] ?? false",
            "'honest' => array_map(fn ($text) => $text . ' ', $entries[$key])",
        )
    )
    operations = [Operation(SET, 7, 1), Operation(GET, 7, 0)]
    with started(tmp_path, tmp_path) as host:
        request = load(
            tmp_path,
            tmp_path,
            operations,
            value="complex",
            base=sequence_of_a_number(1, 7),
            settings={"script": "[]"},
        )
        host.ask(request, protocol.Loaded)
        host.open()
        assert host.run(0).verdict.wrong == 1


def test_the_order_of_fields_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "adapter.php").write_text(
        SCRIPTED.replace(
            "'honest' => $entries[$key] ?? false", "'honest' => array_reverse($entries[$key], true)"
        )
    )
    operations = [Operation(SET, 7, 20), Operation(GET, 7, 0)]
    with started(tmp_path, tmp_path) as host:
        request = load(tmp_path, tmp_path, operations, value="complex", settings={"script": "[]"})
        host.ask(request, protocol.Loaded)
        host.open()
        assert host.run(0).verdict == protocol.Verdict()


# ---------------------------------------------------------------------------------- several workers

OBEDIENT = """<?php
use Lab\\Host\\Limits;
use Lab\\Host\\Store;
// Answers what the script says, a line a call.
return function (string $folder, Limits $limits, array $settings): Store {
    $lines = file($settings['script'], FILE_IGNORE_NEW_LINES);
    $says = function () use (&$lines): mixed {
        $line = array_shift($lines);
        return match ($line) {
            'nothing' => null,
            'yes' => true,
            'no' => false,
            default => hex2bin(substr($line, 1)),
        };
    };
    return new Store(get: $says, set: $says, delete: $says, close: fn () => null);
};
"""


@pytest.fixture(scope="module")
def obedient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, Path]]:
    """Give a host and the adapter that answers what a script says."""
    folder = tmp_path_factory.mktemp("obedient")
    adapter = folder / "adapter.php"
    adapter.write_text(OBEDIENT)
    with started(folder, folder) as host:
        yield host, adapter


@pytest.mark.parametrize("name", workers_rules.CASES)
def test_the_rules_of_several_workers(
    obedient: tuple[Host, Path], tmp_path: Path, name: str
) -> None:
    host, adapter = obedient
    workers_rules.check(host, tmp_path, adapter, workers_rules.CASES[name])


@pytest.mark.parametrize("seed", range(5))
def test_random_answers_are_judged_as_by_the_reference(
    obedient: tuple[Host, Path], tmp_path: Path, seed: int
) -> None:
    host, adapter = obedient
    workers_rules.check_randomly(host, tmp_path, adapter, seed)


LYING = """<?php
use Lab\\Host\\Limits;
use Lab\\Host\\Store;
// Files that all workers share. Every tenth time it does what the settings say.
return function (string $folder, Limits $limits, array $settings): Store {
    $honest = (require $settings['honest'])($folder, $limits, $settings);
    $times = 0;
    return new Store(
        get: function (string $key) use ($honest, $settings, &$times) {
            $value = ($honest->get)($key);
            $lies = $settings['lie'] === 'wrong' && is_string($value) && ++$times % 10 === 0;
            return $lies ? strrev($value) : $value;
        },
        set: function (string $key, string $value) use ($honest, $settings, &$times) {
            $lies = $settings['lie'] === 'stale' && ++$times % 10 === 0;
            return $lies || ($honest->set)($key, $value);
        },
        delete: $honest->delete,
        close: $honest->close,
    );
};
"""


def together(folder: Path, adapter: Path, settings: dict[str, str]) -> list[protocol.Ran]:
    """Let three workers run a mix each on one store, and return what came of it."""
    mixes = [mixed(800, seed=worker) for worker in range(3)]
    plan = Plan(folder, adapter, [[sets(100)], mixes], key_texts(), settings=settings)
    with ExitStack() as stack:
        hosts = [stack.enter_context(started(folder, folder)) for _ in range(3)]
        ask_all(hosts, [plan.load(worker, 3) for worker in range(3)], protocol.Loaded)
        opening = plan.open()
        for host in hosts:
            host.ask(opening, protocol.Opened)
        assert hosts[0].run(0).done == 100
        return run_together(hosts, prepare(1, "latency", warmup=80, stretch=800))


@pytest.mark.parametrize("name", ["php_files", "php_sqlite"])
def test_workers_on_one_honest_store_accuse_nobody(tmp_path: Path, name: str) -> None:
    for ran in together(tmp_path, SHIPPED / name / "adapter.php", {}):
        assert ran.verdict.wrong == ran.verdict.stale == 0, ran.verdict
        assert ran.done == 800
        assert sum(tally.count for tally in ran.actions.values()) == 720
        assert ran.elapsed_ns == ran.ended_ns - ran.started_ns
        # All keys are stored by somebody, so nobody can say that a miss was right.
        assert ran.actions["get"].absent == 0
        assert ran.actions["get"].miss < ran.actions["get"].count


@pytest.mark.parametrize("lie", ["wrong", "stale"])
def test_workers_catch_what_one_would(tmp_path: Path, lie: str) -> None:
    (tmp_path / "adapter.php").write_text(LYING)
    settings = {"lie": lie, "honest": str(SHIPPED / "php_files" / "adapter.php")}
    verdict = protocol.Verdict()
    for ran in together(tmp_path, tmp_path / "adapter.php", settings):
        verdict.add(ran.verdict)
    assert {"wrong": verdict.wrong > 0, "stale": verdict.stale > 0} == {
        "wrong": lie == "wrong",
        "stale": lie == "stale",
    }


# ---------------------------------------------------------------------------------- bad requests


def test_what_is_no_request_is_refused_and_the_host_stays(tmp_path: Path) -> None:
    honest = load(tmp_path, HERE / "php_honest", sets(10))
    fields = msgspec.to_builtins(honest)
    prepared = msgspec.to_builtins(prepare(0))
    bad: list[object] = [
        {"verb": "dance"},
        {"no": "verb"},
        [],
        {**fields, "colour": "red"},
        {name: value for name, value in fields.items() if name != "seed"},
        {**fields, "seed": "1"},
        {**fields, "seed": 2**64},
        {**fields, "value": "round"},
        {**fields, "phases": [{"name": "p", "streams": [{"path": "x", "base": 0, "more": 1}]}]},
        {**fields, "adapter": "/nowhere/adapter.php"},
        {**fields, "keys": "/nowhere/keys.txt"},
        {"verb": "close", "really": True},
    ]
    with started(tmp_path, HERE / "php_honest") as host:
        for request in bad:
            reply = host.say(json.dumps(request).encode())
            assert isinstance(reply, protocol.Failed), request
            assert not reply.missing
            assert reply.reason
        assert isinstance(host.say(b"{not json"), protocol.Failed)
        host.ask(honest, protocol.Loaded)
        # A step before the one that prepares it.
        assert isinstance(host.say(json.dumps(prepared).encode()), protocol.Failed)
        assert isinstance(host.say(b'{"verb": "probe_write"}'), protocol.Failed)
        host.open()
        assert isinstance(
            host.say(b'{"verb": "run", "start_ns": 0, "durations": ""}'), protocol.Failed
        )
        for wrong in ({"phase": 1}, {"measure": "speed"}, {"block": 0}, {"stretch": 0}):
            reply = host.say(json.dumps({**prepared, **wrong}).encode())
            assert isinstance(reply, protocol.Failed), wrong
        assert host.run(0).done == 10


def test_an_extension_that_is_not_there_is_missing(tmp_path: Path) -> None:
    plan = tomllib.loads((SHIPPED / "php_xcache/contestant.toml").read_text())
    with started(tmp_path, SHIPPED / "php_xcache") as host:
        request = load(
            tmp_path,
            SHIPPED / "php_xcache",
            sets(10),
            distribution=plan["install"]["distribution"],
        )
        failed = host.ask(request, protocol.Failed)
    assert failed.missing
    assert "XCache" in failed.reason


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("throw new RuntimeException('no cache today');", "RuntimeException: no cache today"),
        ("return $nothing;", "Undefined variable"),
        ("fopen('/nowhere/at/all', 'r');", "No such file"),
        ("no_such_function();", "undefined function"),
    ],
)
def test_an_error_in_a_verb_fails_the_request(tmp_path: Path, body: str, reason: str) -> None:
    (tmp_path / "adapter.php").write_text(
        SPYING.replace("get: fn ($key) => null", f"get: function ($key) {{ {body} }}")
    )
    with started(tmp_path, tmp_path) as host:
        host.ask(load(tmp_path, tmp_path, gets(10)), protocol.Loaded)
        host.open()
        host.ask(prepare(0), protocol.Prepared)
        assert reason in host.ask(protocol.Run(0, ""), protocol.Failed).reason


def test_a_sequence_of_two_streams_is_refused(tmp_path: Path) -> None:
    request = load(tmp_path, HERE / "php_honest", sets(10), gets(10))
    first, second = request.phases
    phases = [first, msgspec.structs.replace(second, streams=first.streams)]
    with started(tmp_path, HERE / "php_honest") as host:
        failed = host.ask(msgspec.structs.replace(request, phases=phases), protocol.Failed)
    assert "the sequence 1000 belongs to two streams" in failed.reason


def test_what_is_no_stream_is_refused(tmp_path: Path) -> None:
    request = load(tmp_path, HERE / "php_honest", sets(10))
    (tmp_path / "phase-0-0").write_bytes(b"LABOPS02" + bytes(12))
    with started(tmp_path, HERE / "php_honest") as host:
        assert "is not an operation stream" in host.ask(request, protocol.Failed).reason


# ---------------------------------------------------------------------------------- its end


def test_a_host_ends_with_its_parent(tmp_path: Path) -> None:
    # A parent that starts a host which is busy and hears nothing of the end of its input.
    keeper = tmp_path / "keeper.py"
    keeper.write_text(
        "import os, subprocess, sys, time\n"
        "command = [part.format(parent=os.getpid()) for part in sys.argv[1:]]\n"
        "child = subprocess.Popen(command, stdin=0)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    host = [str(LAB / "hosts/php/host.php"), "{parent}"]
    reading, writing = os.pipe()
    with subprocess.Popen(
        [sys.executable, str(keeper), "php", *host], stdin=reading, stdout=subprocess.PIPE
    ) as parent:
        os.close(reading)
        try:
            assert parent.stdout is not None
            child = int(parent.stdout.readline())
            # It answers, so it has asked the kernel for its death.
            os.write(writing, b'{"verb": "dance"}\n')
            assert b"failed" in parent.stdout.readline()
            parent.kill()
            parent.wait()
            # The input is still open.
            _wait(lambda: not _runs(child))
        finally:
            parent.kill()
            os.close(writing)


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        # It may go while it is being read.
        return False


def _wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


# ------------------------------------------------------- contestants that need no server


@pytest.mark.parametrize(
    ("name", "form"),
    [("php_array", ""), ("php_apcu", "limited"), ("php_sqlite", ""), ("php_files", "tmpfs")],
)
def test_a_shipped_contestant_answers_right(tmp_path: Path, name: str, form: str) -> None:
    plan = tomllib.loads((SHIPPED / name / "contestant.toml").read_text())
    operations = mixed(1000)
    for value in plan.get("values", ["binary"]):
        with started(tmp_path, SHIPPED / name, form) as host:
            request = load(
                tmp_path,
                SHIPPED / name,
                operations,
                value=value,
                distribution=plan.get("install", {}).get("distribution", ""),
            )
            host.load_or_skip(request)
            host.open()
            host.ask(protocol.ProbeWrite(), protocol.Probed)
            read = host.ask(protocol.ProbeRead([0]), protocol.Probed)
            assert read.verdict == protocol.Verdict()
            host.ask(protocol.Close(), protocol.Closed)
            host.open()
            ran = host.run(0)
            assert ran.verdict.wrong == ran.verdict.stale == 0, ran.verdict
            assert ran.actions == model(operations, set())
            host.ask(protocol.Close(), protocol.Closed)


def two_levels(folder: Path, *phases: Sequence[Operation]) -> protocol.Load:
    """Return the request that loads APCu before files."""
    return load(
        folder,
        SHIPPED / "php_two_level",
        *phases,
        distribution="apcu",
        settings={"far": "php_files"},
    )


def test_two_levels_answer_as_one(tmp_path: Path) -> None:
    operations = mixed(1000)
    with started(tmp_path, SHIPPED / "php_two_level", "memcached") as host:
        host.load_or_skip(two_levels(tmp_path, operations))
        host.open()
        host.ask(protocol.ProbeWrite(), protocol.Probed)
        assert host.ask(protocol.ProbeRead([0]), protocol.Probed).verdict == protocol.Verdict()
        host.ask(protocol.Close(), protocol.Closed)
        host.open()
        ran = host.run(0)
    assert ran.verdict.wrong == ran.verdict.stale == 0, ran.verdict
    assert ran.actions == model(operations, set())


def test_the_near_level_answers_first_and_the_far_one_has_everything(tmp_path: Path) -> None:
    # APCu's 32 MB cannot hold 50 values of 1 MB, and throws away all it has when it is full.
    phases = [sets(50, 1_000_000), gets(50), gets(50)]
    with started(tmp_path, SHIPPED / "php_two_level", "memcached") as host:
        host.load_or_skip(two_levels(tmp_path, *phases))
        host.open()
        host.run(0)
        assert host.run(1).actions["get"] == protocol.Tally(count=50)
        (folder,) = tmp_path.glob("store-*")
        for file in folder.iterdir():
            file.unlink()
        ran = host.run(2)
    assert 0 < ran.actions["get"].miss < 50
    assert ran.verdict.wrong == ran.verdict.stale == 0


def test_null_stores_nothing_and_is_no_liar(tmp_path: Path) -> None:
    with started(tmp_path, SHIPPED / "php_null") as host:
        host.ask(load(tmp_path, SHIPPED / "php_null", gets(100)), protocol.Loaded)
        host.open()
        ran = host.run(0)
        assert ran.actions["get"] == protocol.Tally(count=100, miss=100, absent=100)
        assert ran.verdict == protocol.Verdict()
