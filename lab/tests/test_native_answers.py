"""The native host catches each way to be wrong, and accuses an honest store of nothing.

The negative controls keep a file for each entry, in which a test can change what was stored.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from lab.protocol import (
    Failed,
    Loaded,
    Opened,
    Probed,
    ProbeRead,
    ProbeWrite,
    Replay,
    Replayed,
    Verdict,
)
from lab.stream import DELETE, GET, SET, Operation
from lab.tests.native_hosts import (
    KEYS,
    PRELOAD,
    StartHost,
    a_load,
    an_open,
    derive,
    key_text,
    native_hosts,
    work_through,
)
from lab.tests.talking import Conversation, needs, replay

HOSTS = native_hosts
pytestmark = needs("cargo")


def probe(host: Conversation, folder: Path) -> tuple[Probed, Probed]:
    """Let a host probe, and return what it said of writing and of reading."""
    host.ask(a_load(folder), Loaded)
    host.ask(an_open(folder), Opened)
    return host.ask(ProbeWrite(), Probed), host.ask(ProbeRead([0]), Probed)


# Answers that are wrong.


def test_a_flipped_bit_is_a_wrong_value(tmp_path: Path, start: StartHost) -> None:
    _, ran = work_through(start("native_wrong_value"), tmp_path)
    assert ran.verdict.wrong == ran.actions["get"].wrong > 0
    assert ran.verdict.stale == 0
    assert "that nobody stored" in ran.verdict.examples[0]


def test_an_overwritten_value_is_stale(tmp_path: Path, start: StartHost) -> None:
    _, ran = work_through(start("native_stale"), tmp_path)
    assert ran.verdict.stale > 0
    assert ran.verdict.wrong == 0
    assert len(ran.verdict.examples) <= 5
    assert "overwritten or deleted before" in ran.verdict.examples[0]


def test_another_keys_value_is_wrong_and_named(tmp_path: Path, start: StartHost) -> None:
    host = start("native_honest")
    host.ask(a_load(tmp_path, PRELOAD, [Operation(GET, 3, 0)]), Loaded)
    host.ask(an_open(tmp_path), Opened)
    host.run(0, "throughput")
    shutil.copy(tmp_path / "store" / key_text(8), tmp_path / "store" / key_text(3))
    verdict = host.run(1, "throughput").verdict
    assert verdict.wrong == 1
    assert repr(key_text(8)).replace("'", '"') in verdict.examples[0]


def test_a_deleted_value_that_is_back_is_stale(tmp_path: Path, start: StartHost) -> None:
    host = start("native_honest")
    get = [Operation(GET, 3, 0)]
    host.ask(a_load(tmp_path, PRELOAD, [Operation(DELETE, 3, 0)], get, get), Loaded)
    host.ask(an_open(tmp_path), Opened)
    host.run(0, "throughput")
    path = tmp_path / "store" / key_text(3)
    kept = path.read_bytes()
    host.run(1, "throughput")
    path.write_bytes(kept)
    verdict = host.run(2, "throughput").verdict
    assert (verdict.stale, verdict.wrong) == (1, 0)
    assert "overwritten or deleted before" in verdict.examples[0]
    path.write_bytes(kept[:-1])
    assert host.run(3, "throughput").verdict.wrong == 1


def test_an_evicted_value_is_a_miss_and_no_fault(tmp_path: Path, start: StartHost) -> None:
    host = start("native_honest")
    gets = [Operation(GET, key, 0) for key in range(KEYS)]
    host.ask(a_load(tmp_path, PRELOAD, gets), Loaded)
    host.ask(an_open(tmp_path), Opened)
    host.run(0, "throughput")
    (tmp_path / "store" / key_text(3)).unlink()
    ran = host.run(1, "throughput")
    assert ran.verdict == Verdict()
    assert (ran.actions["get"].miss, ran.actions["get"].absent) == (1, 0)


def test_refusals_are_counted_and_no_lie(tmp_path: Path, start: StartHost) -> None:
    host = start("native_refuses")
    _, ran = work_through(host, tmp_path)
    assert ran.verdict == Verdict()
    assert 0 < ran.actions["set"].miss < ran.actions["set"].count
    assert ran.actions["get"].miss > ran.actions["get"].absent


def test_a_refused_value_must_not_be_there(tmp_path: Path, start: StartHost) -> None:
    host = start("native_refuses")
    # The third set is refused. The value before it is still right, and no other is.
    sets = [Operation(SET, 1, 50), Operation(SET, 2, 50), Operation(SET, 2, 50)]
    host.ask(a_load(tmp_path, sets, *[[Operation(GET, 2, 0)]] * 3), Loaded)
    host.ask(an_open(tmp_path), Opened)
    assert host.run(0, "throughput").actions["set"].miss == 1
    assert host.run(1, "throughput").verdict == Verdict()
    path = tmp_path / "store" / key_text(2)
    path.write_bytes(derive(2, 3, 50))
    assert host.run(2, "throughput").verdict.wrong == 1
    path.unlink()
    ran = host.run(3, "throughput")
    assert ran.verdict == Verdict()
    assert (ran.actions["get"].miss, ran.actions["get"].absent) == (1, 0)


def test_a_delete_that_found_nothing_leaves_the_key_in_doubt(
    tmp_path: Path, start: StartHost
) -> None:
    host = start("native_refuses")
    # The third request that may be refused is the delete.
    work = [Operation(SET, 1, 50), Operation(SET, 2, 50), Operation(DELETE, 2, 0)]
    host.ask(a_load(tmp_path, work, *[[Operation(GET, 2, 0)]] * 2), Loaded)
    host.ask(an_open(tmp_path), Opened)
    assert host.run(0, "throughput").actions["delete"].miss == 1
    ran = host.run(1, "throughput")
    assert ran.verdict == Verdict()
    assert ran.actions["get"].miss == 0
    (tmp_path / "store" / key_text(2)).unlink()
    ran = host.run(2, "throughput")
    assert (ran.actions["get"].miss, ran.actions["get"].absent) == (1, 1)


# The probe.


def test_an_honest_probe(tmp_path: Path, start: StartHost) -> None:
    written, read = probe(start("native_honest"), tmp_path)
    assert written == Probed(64, 0, Verdict())
    assert read == Probed(64, 0, Verdict())
    store = tmp_path / "store"
    kept = {f"probe-0-{number}" for number in range(64) if number % 4 != 3}
    assert {path.name for path in store.iterdir()} == kept
    assert (store / "probe-0-5").read_bytes() == derive(2**32 + 5, 2, 160)


def test_dropped_writes_are_lost_entries_and_misses(tmp_path: Path, start: StartHost) -> None:
    host = start("native_drops_writes")
    written, read = probe(host, tmp_path)
    assert written.refused == 0
    assert read.verdict.lost > 0
    assert (read.verdict.wrong, read.verdict.stale) == (0, 0)
    assert "it is gone" in read.verdict.examples[0]


def test_stale_probe_keys_are_caught(tmp_path: Path, start: StartHost) -> None:
    _, read = probe(start("native_stale"), tmp_path)
    assert read.verdict.stale > 0
    assert (read.verdict.wrong, read.verdict.lost) == (0, 0)


def test_a_refused_probe_key_accuses_nobody(tmp_path: Path, start: StartHost) -> None:
    written, read = probe(start("native_refuses"), tmp_path)
    # Of three rounds each key is refused in one.
    assert (written.refused, read.verdict) == (64, Verdict())


def test_the_probe_reads_the_workers_it_is_told(tmp_path: Path, start: StartHost) -> None:
    host = start("native_honest")
    probe(host, tmp_path)
    read = host.ask(ProbeRead([0, 3]), Probed)
    # Nobody wrote the keys of worker 3: all but the deleted ones are gone.
    assert (read.keys, read.verdict.lost) == (128, 48)


# The replay.


def test_a_replay_stores_on_a_miss(tmp_path: Path, start: StartHost) -> None:
    host = start("native_honest")
    operations = [Operation(GET, position % KEYS, 3_000) for position in range(400)]
    host.ask(a_load(tmp_path, operations, base=77), Loaded)
    host.ask(an_open(tmp_path), Opened)
    assert replay(host, 400) == Replayed(400 - KEYS, 0, Verdict())
    assert (tmp_path / "store" / key_text(2)).read_bytes() == derive(2, 79, 3_000)


def test_a_replay_catches_wrong_values(tmp_path: Path, start: StartHost) -> None:
    host = start("native_wrong_value")
    operations = [Operation(GET, position % KEYS, 300) for position in range(400)]
    host.ask(a_load(tmp_path, operations), Loaded)
    host.ask(an_open(tmp_path), Opened)
    assert replay(host, 400).verdict.wrong == (400 - KEYS) // 50


def test_a_slice_beyond_the_stream_is_refused(tmp_path: Path, start: StartHost) -> None:
    host = start("native_honest")
    host.ask(a_load(tmp_path, [Operation(GET, 0, 300)]), Loaded)
    host.ask(an_open(tmp_path), Opened)
    assert "no slice 0..2 of 1 requests" in host.ask(Replay(0, 0, 2), Failed).reason
