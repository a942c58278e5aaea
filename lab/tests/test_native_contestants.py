"""The native contestants tell the truth, alone and with several workers, and obey their limits."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from lab.protocol import (
    Close,
    Closed,
    Load,
    Loaded,
    Opened,
    Probed,
    ProbeRead,
    ProbeWrite,
    Verdict,
)
from lab.stream import GET, SET, Operation
from lab.tests.native_hosts import (
    KEYS,
    LAB,
    PRELOAD,
    StartHost,
    a_load,
    an_open,
    cargo,
    key_texts,
    native_hosts,
    some_work,
)
from lab.tests.talking import Plan, ask_all, needs, prepare, run_together
from rig.cores import kept_to

CONTROLS: Final = sorted(path.name for path in (LAB / "tests/contestants").glob("native_*"))
CONTESTANTS: Final = sorted(path.name for path in (LAB / "contestants").glob("native_*"))

HOSTS = native_hosts
pytestmark = needs("cargo")


class Row(NamedTuple):
    """A row of the tables: a contestant or one of its forms."""

    folder: str
    shared_by: str
    settings: dict[str, str]
    distribution: str
    counts: list[str]


def rows() -> Iterator[tuple[str, Row]]:
    """Yield the identifier of each row that stores, and the row."""
    for name in CONTESTANTS:
        told = tomllib.loads((LAB / "contestants" / name / "contestant.toml").read_text())
        if not told.get("stores", True):
            continue
        for form in told.get("forms", [{"name": ""}]):
            settings = {**told.get("settings", {}), **form.get("settings", {})}
            distribution = told["install"].get("distribution", "")
            row = Row(name, told["shared_by"], settings, distribution, told["counts"])
            yield f"{name}:{form['name']}".strip(":"), row


ROWS: Final = dict(rows())
each_row = pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)


def load_row(row: Row, folder: Path, *streams: Sequence[Operation], key_count: int = KEYS) -> Load:
    return a_load(
        folder,
        *streams,
        key_count=key_count,
        distribution=row.distribution,
        settings=row.settings,
    )


@each_row
def test_a_contestant_is_accused_of_nothing(tmp_path: Path, start: StartHost, row: Row) -> None:
    host = start(row.folder)
    loaded = host.ask(load_row(row, tmp_path, PRELOAD, some_work(5_000)), Loaded)
    assert bool(loaded.version) == bool(row.distribution)
    host.ask(an_open(tmp_path), Opened)
    assert host.ask(ProbeWrite(), Probed) == Probed(64, 0, Verdict())
    assert host.ask(ProbeRead([0]), Probed) == Probed(64, 0, Verdict())
    host.run(0, "untimed")
    ran = host.run(1, "throughput")
    assert ran.verdict == Verdict()
    # Nothing need be evicted.
    assert 0 < ran.actions["get"].miss == ran.actions["get"].absent < ran.actions["get"].count / 2
    assert ran.actions["set"].miss == 0
    host.ask(Close(), Closed)
    assert host.end() == 0


@each_row
def test_several_workers_of_a_contestant_accuse_it_of_nothing(
    tmp_path: Path, start: StartHost, row: Row
) -> None:
    workers = range(3)
    mixes = [some_work(5_000, worker) for worker in workers]
    plan = Plan(tmp_path, None, [[PRELOAD], mixes, mixes], key_texts(), settings=row.settings)
    hosts = [start(row.folder) for _ in workers]
    ask_all(hosts, [plan.load(worker, 3) for worker in workers], Loaded)
    opening = plan.open(bytes_max=64_000_000)
    for host in hosts:
        host.ask(opening, Opened)
    is_shared = row.shared_by == "machine"
    ask_all(hosts, [ProbeWrite()] * 3, Probed)
    reads = [ProbeRead([0, 1, 2] if is_shared else [worker]) for worker in workers]
    for probed in ask_all(hosts, reads, Probed):
        assert (probed.refused, probed.verdict) == (0, Verdict())
    for host in hosts[:1] if is_shared else hosts:
        assert host.run(0).verdict == Verdict()
    for request in (prepare(1, "throughput", stretch=5_000), prepare(2, "latency", stretch=999)):
        for ran in run_together(hosts, request):
            assert (ran.done, ran.verdict) == (5_000, Verdict())
            # Every key is stored by somebody, so that no miss is certainly right.
            assert ran.actions["get"].absent == 0
            assert 0 < ran.actions["get"].miss < ran.actions["get"].count / 2
            assert ran.actions["set"].miss == 0
    ask_all(hosts, [Close()] * 3, Closed)


@each_row
def test_a_contestant_keeps_large_values(tmp_path: Path, start: StartHost, row: Row) -> None:
    # With many processors quick_cache makes shards that are shorter than two values.
    with kept_to({min(os.sched_getaffinity(0))}):
        host = start(row.folder)
    sets = [Operation(SET, key, 2_222_981) for key in range(8)]
    gets = [Operation(GET, key, 0) for key in range(8)]
    host.ask(load_row(row, tmp_path, sets, gets), Loaded)
    host.ask(an_open(tmp_path, bytes_max=1 << 30), Opened)
    host.run(0, "throughput", block=4)
    ran = host.run(1, "throughput", block=4)
    assert ran.verdict == Verdict()
    assert ran.actions["get"].miss == 0


@pytest.mark.parametrize(
    ("row", "limit"),
    [
        pytest.param(row, limit, id=f"{name}-{limit}")
        for name, row in ROWS.items()
        for limit in row.counts
    ],
)
def test_a_contestant_obeys_what_it_counts(
    tmp_path: Path, start: StartHost, row: Row, limit: str
) -> None:
    host = start(row.folder)
    count, size, limits = 4_000, 600, {"entries": 1_000, "bytes": 720_896}
    sets = [Operation(SET, key, size) for key in range(count)]
    gets = [Operation(GET, key, 0) for key in range(count)]
    host.ask(load_row(row, tmp_path, sets, gets, key_count=count), Loaded)
    entries_max = limits["entries"] if limit == "entries" else 0
    bytes_max = limits["bytes"] if limit == "bytes" else 64_000_000
    host.ask(an_open(tmp_path, entries_max=entries_max, bytes_max=bytes_max), Opened)
    host.run(0, "throughput")
    ran = host.run(1, "throughput")
    assert ran.verdict == Verdict()
    kept = count - ran.actions["get"].miss
    # Those that evict behind the back of a set may be a little late.
    most = 1.1 * (entries_max or bytes_max / size)
    assert most / 3 < kept < most


# The crates.


def test_the_crates_pass_their_own_tests() -> None:
    # Of the whole workspace, for which everything has been built: a part has other features.
    cargo("test", "--workspace", "--lib")


@pytest.mark.parametrize("name", [*CONTESTANTS, *CONTROLS])
def test_the_program_has_the_name_of_its_folder(name: str) -> None:
    (folder,) = [path for path in LAB.glob(f"**/contestants/{name}") if path.is_dir()]
    assert f'name = "{name}"' in (folder / "Cargo.toml").read_text()
    assert 'host = "native"' in (folder / "contestant.toml").read_text()
    assert "cargo = true" in (folder / "contestant.toml").read_text()
