"""Values and answers in PHP: which are right, and what catches the others."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import struct
from pathlib import Path

import pytest

from lab import protocol
from lab.stream import DELETE, GET, SET, Operation
from lab.tests.php_hosts import (
    HERE,
    SPYING,
    gets,
    load,
    mixed,
    sets,
    started,
)
from lab.tests.talking import (
    needs,
)

pytestmark = needs("php")


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
