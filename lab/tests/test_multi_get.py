"""Several gets in one request: hosts, contestants, streams and reports."""

from __future__ import annotations

import asyncio
import json
import os
import re
import struct
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from lab import stream
from lab.protocol import (
    ACTIONS,
    Action,
    Close,
    Closed,
    Failed,
    Loaded,
    Opened,
    Prepared,
    Ran,
    Run,
    Tally,
    Verdict,
)
from lab.report.layouts import sheets
from lab.report.model import Dots
from lab.runner import catalogue, phases
from lab.runner.catalogue import CatalogueError, Contestant, PhasesSuite, suites
from lab.runner.failures import HostError
from lab.runner.histograms import decode
from lab.runner.inputs import Pace, PlannedPass, inputs, pace
from lab.runner.passes import merge
from lab.runner.plan import Choice
from lab.runner.results import Pass
from lab.runner.summary import summarise
from lab.stream import GET, SET, Operation
from lab.tests import synthetic
from lab.tests.runtimes import Hosts, only
from lab.tests.small import FILL, Unwatched, contestant, session, suite
from lab.tests.talking import Conversation, Streams, needs, one_worker, prepare

MANY: dict[str, object] = {
    "name": "many",
    "operations": 65,
    "shares": {"get": 1.0},
    "batch": 10,
    "passes": ["throughput", "latency"],
}
KEYS = [f"{number}" for number in range(40)]
GETS = [Operation(GET, key, 0) for key in range(40)]
PRELOAD = [Operation(SET, key, 30) for key in range(0, 40, 2)]


# Hosts.

STORE = """<?php
use Lab\\Host\\Limits;
use Lab\\Host\\Store;
// Notes in the file `asked` how many keys it is asked for at once. Every seventh answers wrongly.
return function (string $folder, Limits $limits, array $settings): Store {
    $entries = $asked = [];
    $get = function (string $key) use (&$entries) {
        return (int) $key % 7 === 6 && isset($entries[$key]) ? 'nonsense' : $entries[$key] ?? null;
    };
    $getMany = function (array $keys) use ($get, &$asked) {
        $asked[] = count($keys);
        return array_map($get, $keys);
    };
    return new Store(
        get: function (string $key) use ($get, &$asked) {
            $asked[] = 1;
            return $get($key);
        },
        set: function (string $key, string $value) use (&$entries) { $entries[$key] = $value; },
        delete: fn () => false,
        close: function () use ($settings, &$asked) {
            file_put_contents($settings['asked'], json_encode($asked));
        },
        getMany: MANY,
    );
};
"""


php = only("php")


def opened(hosts: Hosts, phases: Sequence[Streams], many: str = "$getMany") -> Conversation:
    """Start a host, and load, open and fill a store by the first phase."""
    plan = hosts.plan("honest", phases, keys=KEYS, settings={"asked": str(hosts.folder / "asked")})
    plan.adapter = hosts.folder / "adapter.php"
    plan.adapter.write_text(STORE.replace("MANY", many))
    host = hosts.start()
    host.ask(plan.load(), Loaded)
    host.ask(plan.open(), Opened)
    host.run(0)
    return host


FILLED = one_worker(PRELOAD, GETS)


def asked(host: Conversation, hosts: Hosts) -> list[int]:
    """Close the store, and return the numbers of keys per request."""
    host.ask(Close(), Closed)
    counts: list[int] = json.loads((hosts.folder / "asked").read_bytes())
    return counts


@php
@pytest.mark.parametrize(("many", "counts"), [("$getMany", [15, 15, 10]), ("null", [1] * 40)])
def test_keys_are_asked_for_at_once_where_the_store_can(
    hosts: Hosts, many: str, counts: list[int]
) -> None:
    host = opened(hosts, FILLED, many)
    durations = hosts.folder / "durations"
    ran = host.run(1, "latency", batch=15, block=30, stretch=30, durations=str(durations))
    # Keys 6, 20 and 34 exist and return wrong values; odd keys were never stored.
    assert ran.actions["get"] == Tally(count=40, miss=20, absent=20, wrong=3)
    assert ran.verdict.wrong == 3
    assert "get('6') returned 8 bytes that were never stored" in ran.verdict.examples[0]
    durations_ns = struct.unpack("<3Q", durations.read_bytes())
    assert 0 < sum(durations_ns) < ran.elapsed_ns
    assert asked(host, hosts) == counts


@php
def test_a_throughput_pass_with_a_warm_up_has_batches_too(hosts: Hosts) -> None:
    host = opened(hosts, FILLED)
    ran = host.run(1, "throughput", warmup=10, batch=10, block=20, stretch=40)
    assert ran.actions["get"] == Tally(count=30, miss=15, absent=15, wrong=2)
    assert (ran.done, len(ran.blocks_ns)) == (40, 1)
    assert asked(host, hosts) == [10] * 4


@php
@pytest.mark.parametrize(
    "many",
    [
        "fn (array $keys) => array_slice($getMany($keys), 1)",
        "fn (array $keys) => array_combine($keys, $getMany($keys))",
        "fn (array $keys) => false",
    ],
)
def test_an_answer_for_each_key_is_demanded(hosts: Hosts, many: str) -> None:
    host = opened(hosts, FILLED, many)
    host.ask(prepare(1, batch=10), Prepared)
    failed = host.ask(Run(0, ""), Failed)
    assert "getMany did not return a list with a value for each key" in failed.reason


@php
def test_only_gets_come_in_batches(hosts: Hosts) -> None:
    host = opened(hosts, one_worker(GETS, PRELOAD))
    assert "only gets" in host.ask(prepare(1, batch=10), Failed).reason
    assert "batches of 0" in host.ask(prepare(1, batch=0), Failed).reason


# Contestants.

ROWS = [row for row in catalogue.contestants().values() if row.multi_get and row.stores]


def adapter_of(row: Contestant) -> str:
    """Return the adapter that opens the store of a row: its own, or the one it uses."""
    text = Path(row.folder, "adapter.php").read_text("utf-8")
    handed_on = re.search(r"return require __DIR__ \. '/\.\./(\w+)/adapter.php'", text)
    if handed_on is None:
        return text
    return Path(row.folder).with_name(handed_on[1]).joinpath("adapter.php").read_text("utf-8")


def test_who_says_that_it_can_has_the_verb() -> None:
    for row in catalogue.contestants().values():
        can = row.host == "php" and "getMany: " in adapter_of(row)
        assert can == bool(row.multi_get), row.name


@needs("php")
@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_a_shipped_contestant_answers_right(tmp_path: Path, row: Contestant) -> None:
    of = suite(1, steps=[FILL, {**MANY, "absent": 0.3}], stock=True)
    choice = Choice("full", [msgspec.structs.replace(row, suites=["small"])])
    with session(tmp_path) as one:
        cells = asyncio.run(phases.run(one, of, choice, {}, Unwatched()))
    assert cells
    for cell in cells:
        if cell.outcome in ("missing", "unavailable"):
            assert cell.outcome == "unavailable" or os.environ.get("CI") != "true", cell.reason
            pytest.skip(cell.reason)
        assert (cell.outcome, cell.reason) == ("measured", "")
        (many,) = cell.phases
        for one_pass in (many.throughput, many.latency):
            assert one_pass is not None
            get = one_pass.actions["get"].tally
            # All stored values came back, and nothing else.
            assert (get.count, get.wrong) == (60, 0)
            assert 0 < get.miss == get.absent < 60
            assert one_pass.verdict.wrong == one_pass.verdict.stale == 0
        assert decode(many.latency.actions["get"].histogram).get_total_count() == 6  # type: ignore[union-attr]


# The runner.


def planned(**fields: object) -> PhasesSuite:
    return suite(1, steps=[FILL, {**MANY, **fields}])


def test_streams_have_whole_batches_of_different_keys(tmp_path: Path) -> None:
    of = planned(warmup=25, operations=405)
    part, form = of.parts[0], of.form("full")
    with session(tmp_path) as one, inputs(one, of, part, part.variants[0], form) as given:
        _, throughput, latency = given.passes
        for planned_pass in (throughput, latency):
            assert (planned_pass.operations, planned_pass.warmup) == (400, 20)
            path = Path(given.phases[planned_pass.index].streams[0].path)
            keys = [operation.key for operation in stream.read(path)]
            batches = [keys[start : start + 10] for start in range(0, 400, 10)]
            assert all(len(set(batch)) == 10 for batch in batches)
            assert len({tuple(batch) for batch in batches}) == 40


@pytest.mark.parametrize(("block", "expected"), [(256, 250), (4, 10), (10, 10), (1_000, 1_000)])
def test_a_block_has_whole_batches(block: int, expected: int) -> None:
    part = planned(block=block).parts[0]
    one = PlannedPass(part.phases[1], "throughput", 1, 400, 0, [])
    row = msgspec.structs.replace(contestant("honest"), block=1_000)
    assert pace(one, row, part.variants[0], 1, 2).block == expected


def merged(folder: Path, count: int) -> Pass:
    part = planned().parts[0]
    one = PlannedPass(part.phases[1], "latency", 1, 60, 20, [bytes(60)])
    path = folder / "0"
    path.write_bytes(struct.pack(f"<{count}Q", *range(1, count + 1)))
    actions: dict[Action, Tally] = {action: Tally() for action in ACTIONS}
    actions["get"] = Tally(count=30)
    ran = Ran(50, 100, 200, 100, 0, [], actions, Verdict())
    return merge(one, Pace(10, 10, 1, 1), [ran], [path])


def test_a_duration_is_that_of_a_batch(tmp_path: Path) -> None:
    get = merged(tmp_path, 3).actions["get"]
    assert (get.tally.count, get.total_ns) == (30, 1 + 2 + 3)
    assert decode(get.histogram).get_total_count() == 3


def test_a_duration_for_each_key_is_found_out(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="wrote 30 durations for 3 operations or batches"):
        merged(tmp_path, 30)


@pytest.mark.parametrize(
    "fields",
    [{"batch": 0}, {"shares": {"get": 0.9, "set": 0.1}}, {"steps": [1]}, {"batch": 61}],
)
def test_an_odd_batch_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"batches|a batch larger than"):
        planned(**fields)


@pytest.mark.parametrize("runtime", sorted(catalogue.hosts()))
def test_a_host_that_cannot_is_refused_by_the_catalogue(tmp_path: Path, runtime: str) -> None:
    folder = tmp_path / "contestants" / "odd"
    folder.mkdir(parents=True)
    (folder / "contestant.toml").write_text(
        f'title = "Odd"\nwhat = "Odd."\nhost = "{runtime}"\nshared_by = "machine"\n'
        "survives_restart = false\nevicts = false\ncounts = []\ncannot = []\n"
        'suites = ["network-2011"]\n'
    )
    if catalogue.host(runtime).multi_get:
        assert list(catalogue.contestants(folder.parent)) == ["odd"]
    else:
        with pytest.raises(CatalogueError, match=r"at once, which the host .* cannot"):
            catalogue.contestants(folder.parent)


# The report.


def test_the_table_has_the_time_of_a_value_and_how_it_was_asked_for() -> None:
    of = suites()["network-2011"]
    assert isinstance(of, PhasesSuite)
    rows = synthetic.contestants(of)
    can, cannot = (one for one in rows if one.name in ("php_memcache:limited", "php_files:tmpfs"))
    rows[rows.index(can)] = can = msgspec.structs.replace(can, multi_get="one request")
    cells = list(synthetic.cells(of, rows, rounds=1))
    for cell in cells:
        for phase in cell.phases:
            if phase.name == "100 at once" and phase.throughput is not None:
                phase.throughput.block_ns //= 4
    (sheet,) = (one for one in sheets(of, summarise(of, rows, cells)) if one.name == "multi-get")
    (table,), (chart,) = sheet.tables, sheet.charts
    headings = [column.heading for column in table.columns]
    assert headings[1:5] == ["one by one", "10 at once", "100 at once", "Speedup"]
    found = {row.cells[0].short: row for row in table.rows if row.keys["values"] == "4 KB"}
    assert found["php_memcache:limited 1c"].cells[-1].text == "one request"
    one_by_one, _, hundred, saves = found["php_memcache:limited 1c"].cells[1:5]
    assert (one_by_one.order or 0) / (hundred.order or 1) == pytest.approx(saves.order, rel=0.1)
    assert saves.order == pytest.approx(4, rel=0.1)
    assert found["php_files:tmpfs"].cells[-1].text == "one by one"
    # Without batches, a difference is chance.
    assert found["php_files:tmpfs"].cells[4].text == ""
    assert isinstance(chart, Dots)
    assert chart.marks == ("one by one", "10 at once", "100 at once")
    assert cannot.name in found
