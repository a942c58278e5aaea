"""The user's own workloads: valid files, who can run them, and the keys they request."""

from __future__ import annotations

import random
import time
import tracemalloc
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from lab.__main__ import main
from lab.hosts.python.verify import Verifier
from lab.hosts.python.workload import Workload as HostWorkload
from lab.protocol import Load, Opened
from lab.runner import catalogue, room, streams
from lab.runner.catalogue import LAB, CatalogueError, PhasesSuite, StoreLimits
from lab.runner.cell import adapter_of
from lab.runner.hosts import command_of
from lab.runner.inputs import inputs
from lab.runner.placeholders import fill_values, limit_words
from lab.runner.skew import Zipf, scatter
from lab.runner.workloads import load, refusal, suite_of, taking_part
from lab.stream import GET, SET, Operation
from lab.stream import read as read_stream
from lab.tests.small import session
from lab.tests.talking import Conversation, Plan

EXAMPLES = {path.stem: path for path in sorted((LAB / "workloads").glob("*.toml"))}
BASE = """
name = "mine"
title = "Mine"
operations = 5_000

[keys]
count = 1_000

[value]
shape = "fixed"
size = 100

[mix]
"""


def written(folder: Path, mix: str, **replaced: str) -> Path:
    text = BASE
    for before, after in replaced.items():
        text = text.replace(f"{before} = ", f"{after} #")
    path = folder / "mine.toml"
    path.write_text(text + mix, "utf-8")
    return path


def drawn(suite: PhasesSuite, folder: Path) -> tuple[list[list[Operation]], int]:
    """Return the operations of each worker's throughput pass, and the number of keys."""
    part = suite.parts[0]
    form = suite.form("full")
    with session(folder) as one, inputs(one, suite, part, part.variants[0], form) as given:
        number = next(index for index, one in enumerate(given.passes) if one.measure != "untimed")
        paths = [Path(of.path) for of in given.phases[number].streams]
        found = [list(read_stream(path)) for path in paths]
        return found, len(given.keys.read_text("ascii").split())


def test_the_examples_of_ycsb_are_workloads_and_scans_are_refused() -> None:
    assert sorted(EXAMPLES) == [f"ycsb-{letter}" for letter in "abcdef"]
    for name, path in EXAMPLES.items():
        if name == "ycsb-e":
            with pytest.raises(CatalogueError, match="workload 'ycsb-e' scans, but no cache"):
                suite_of(load(path))
        else:
            assert suite_of(load(path)).name == name


def test_a_mix_has_the_shares_that_were_asked_for(tmp_path: Path) -> None:
    mix = "get = 0.6\nset = 0.2\ndelete = 0.1\ninsert = 0.1\n"
    suite = suite_of(load(written(tmp_path, mix)))
    ((operations,), keys) = drawn(suite, tmp_path)
    assert len(operations) == 5_000
    verbs = Counter(one.verb for one in operations)
    assert verbs[GET] / 5_000 == pytest.approx(0.6, abs=0.03)
    inserted = [one.key for one in operations if one.key >= 1_000]
    assert len(inserted) / 5_000 == pytest.approx(0.1, abs=0.02)
    # Each insert has its own key, and the other pass inserts other keys.
    assert inserted == list(range(1_000, 1_000 + len(inserted)))
    assert keys > inserted[-1] + 1


def test_a_modification_is_a_get_and_a_set_of_the_same_key(tmp_path: Path) -> None:
    ((operations,), _) = drawn(suite_of(load(written(tmp_path, "modify = 1.0\n"))), tmp_path)
    pairs = list(zip(operations[::2], operations[1::2], strict=True))
    assert all((get.verb, set_.verb) == (GET, SET) for get, set_ in pairs)
    assert all(get.key == set_.key for get, set_ in pairs)


def test_workers_insert_keys_of_their_own(tmp_path: Path) -> None:
    one = msgspec.structs.replace(
        load(written(tmp_path, "get = 0.5\ninsert = 0.5\n")), processes=3, operations=500
    )
    found, _ = drawn(suite_of(one), tmp_path)
    inserted = [{op.key for op in operations if op.verb == SET} for operations in found]
    assert len(set.union(*inserted)) == sum(map(len, inserted))


def test_latest_asks_for_what_was_inserted_last(tmp_path: Path) -> None:
    one = load(written(tmp_path, "get = 0.9\ninsert = 0.1\n"))
    one = msgspec.structs.replace(one, keys=msgspec.structs.replace(one.keys, order="latest"))
    ((operations,), keys) = drawn(suite_of(one), tmp_path)
    last = operations[-1_000:]
    recent = sum(op.key >= 1_000 for op in last if op.verb == GET)
    assert recent / 900 > 0.6
    assert all(0 <= op.key < keys for op in operations)


def test_zipf_has_its_frequencies() -> None:
    count, exponent, draws = 1_000, 0.99, 200_000
    skewed = Zipf(count, exponent, random.Random(3))
    found = Counter(skewed.draw() for _ in range(draws))
    whole = sum(rank**-exponent for rank in range(1, count + 1))
    for rank in (0, 1, 9, 99):
        assert found[rank] / draws == pytest.approx((rank + 1) ** -exponent / whole, rel=0.1)
    assert 0 <= min(found) <= max(found) < count


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5])
def test_zipf_takes_any_exponent(exponent: float) -> None:
    skewed = Zipf(10_000_000, exponent, random.Random(3))
    ranks = [skewed.draw() for _ in range(2_000)]
    assert 0 <= min(ranks) <= max(ranks) < 10_000_000
    assert len(set(ranks)) > 10


@pytest.mark.parametrize("count", [1, 2, 7, 1_000, 65_536])
def test_scattering_is_a_permutation(count: int) -> None:
    assert sorted(scatter(rank, count) for rank in range(count)) == list(range(count))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("get = 0.5\n", "must add up to 1"),
        ("get = 1.5\nset = -0.5\n", "must add up to 1, none negative"),
        ("get = 1.0\nfly = 0.0\n", "unknown field `fly`"),
        ("get = 1.0\n[keys]\n", "mine.toml"),
    ],
)
def test_a_file_that_is_no_workload_says_why(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(CatalogueError, match=says):
        suite_of(load(written(tmp_path, text)))


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("count = 1_000", "count = 999", "keys.count is 999: it must be 1,000 to 10,000,000"),
        ("size = 100", "size = 9_000_000", "the largest value is 9,000,000"),
        ("operations = 5_000", "operations = 0", "operations is 0"),
        ('name = "mine"', 'name = "my mine"', "use lower-case letters"),
        ('name = "mine"', 'name = "django"', "has the name of a suite"),
    ],
)
def test_a_number_out_of_its_range_is_named(
    tmp_path: Path, before: str, after: str, says: str
) -> None:
    path = written(tmp_path, "get = 1.0\n")
    path.write_text(path.read_text("utf-8").replace(before, after), "utf-8")
    with pytest.raises(CatalogueError, match=says):
        suite_of(load(path))


def test_who_cannot_take_part_has_a_reason() -> None:
    rows = list(catalogue.contestants().values())
    one = msgspec.structs.replace(load(EXAMPLES["ycsb-b"]), ttl=60)
    found, refused = taking_part(one.name, partial(refusal, one), rows, "smoke")
    assert len(found) == len(rows)
    assert "perl_hash" in refused["its adapter cannot give entries a time to live"]
    running = {row.name for row in found if one.name in row.suites}
    assert "tuckbox" in running
    hosts = {row.host for row in found if one.name in row.suites}
    assert hosts == {"python", "perl", "php", "native"}
    assert not running & set().union(*refused.values())


def test_the_command_runs_a_workload_in_three_languages(tmp_path: Path) -> None:
    arguments = ["run", "--workload", str(EXAMPLES["ycsb-b"]), "--quick", "--records"]
    arguments += [str(tmp_path / "records")]
    for name in ("tuckbox", "dict", "native_hashmap", "perl_hash", "php_array"):
        arguments += ["--contestant", name]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert "YCSB B: 95 % read, 5 % update, Zipf" in done.output
    for name in ("tuckbox", "dict:shared", "native_hashmap", "perl_hash", "php_array"):
        assert f"{name}, ycsb-b/main" in done.output


def test_no_key_is_drawn_that_a_short_form_does_not_store(tmp_path: Path) -> None:
    suite = suite_of(load(EXAMPLES["ycsb-b"]))
    part = suite.parts[0]
    assert streams.operations(part.phases[0], part, part.variants[0], suite.form("quick")) == 10_000


# ---------------------------------------------------------------------- many keys


def test_a_workload_that_memory_does_not_suffice_for_is_refused_before_anything_starts(
    tmp_path: Path,
) -> None:
    path = written(tmp_path, "get = 1.0\n")
    text = path.read_text("utf-8").replace("count = 1_000", "count = 10_000_000")
    path.write_text(text.replace("size = 100", "size = 3_000_000"), "utf-8")
    arguments = ["run", "--workload", str(path), "--records", str(tmp_path / "records")]
    done = CliRunner().invoke(main, [*arguments, "--contestant", "tuckbox"])
    assert done.exit_code == 2, done.output
    said = " ".join(done.output.split())
    assert "its python host and its entries need about 30,0" in said
    assert "GB are free): tuckbox." in said
    assert "nothing to run" in said
    assert not (tmp_path / "records").exists()


def test_a_host_needs_more_memory_for_more_keys_processes_and_operations() -> None:
    row = catalogue.contestants()["tuckbox"]
    one = load(EXAMPLES["ycsb-b"])
    needed = room.bytes_needed(one, row)
    free = room.Room(needed, 11_000_000, "/data")
    assert room.refusal(one, row, free) == ""
    assert "need about" in room.refusal(one, row, replace(free, memory=needed - 1))
    small = replace(free, stores=10_000_000)
    told = room.refusal(one, row, small)
    assert told.startswith("its entries need 10.360 MB, but /data has only 10.000 MB free: ")
    # Neither a store with a smaller limit, nor one without files.
    assert room.refusal(msgspec.structs.replace(one, memory=9_000_000), row, small) == ""
    moka = catalogue.contestants()["native_moka:copied"]
    assert room.refusal(one, moka, replace(small, memory=1 << 40)) == ""
    many = msgspec.structs.replace(one, keys=msgspec.structs.replace(one.keys, count=10_000_000))
    for larger in (
        many,
        msgspec.structs.replace(one, processes=4),
        msgspec.structs.replace(one, operations=10 * one.operations),
    ):
        assert room.bytes_needed(larger, row) > needed
    # Ten million entries of 1,000 bytes, and tables of a few gigabytes.
    assert 10e9 < room.bytes_needed(many, row) < 15e9


def test_the_estimate_of_the_python_host_is_not_below_what_it_takes(tmp_path: Path) -> None:
    keys = 20_000
    one = load(written(tmp_path, "get = 0.5\nset = 0.5\n"))
    one = msgspec.structs.replace(one, keys=msgspec.structs.replace(one.keys, count=keys))
    suite = suite_of(one)
    part = suite.parts[0]
    with (
        session(tmp_path) as run,
        inputs(run, suite, part, part.variants[0], suite.form("full")) as given,
    ):
        message = Load(
            adapter="",
            distribution="",
            settings={},
            seed=1,
            worker=0,
            workers=1,
            keys=str(given.keys),
            value="binary",
            phases=given.phases,
        )
        tracemalloc.start()
        workload = HostWorkload(message)
        verifier = Verifier(workload)
        for start in range(0, keys, 1_000):
            block = workload.block(0, start, start + 1_000)
            verifier.check(block, [None] * 1_000, None)
        for start in range(0, 5_000, 1_000):
            block = workload.block(1, start, start + 1_000)
            is_get = [verb == GET for verb in block.verbs]
            answers: list[object] = [b"none" if get else None for get in is_get]
            verifier.check(block, answers, None)
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    pool = 4 << 20
    assert kept - pool < keys * (catalogue.host("python").key_bytes + 24)


LOCAL = [
    row.name
    for row in catalogue.contestants().values()
    if row.expires and not row.server and "smoke" in row.suites
]


@pytest.mark.parametrize("name", LOCAL)
def test_who_says_that_entries_expire_lets_them_expire(tmp_path: Path, name: str) -> None:
    row = catalogue.contestants()[name]
    limits = StoreLimits(bytes=64 << 20)
    kept = [[Operation(SET, key, 100) for key in range(50)]]
    asked = [[Operation(GET, key, 0) for key in range(50)]]
    settings = fill_values(row.settings, limit_words(limits))
    plan = Plan(
        tmp_path,
        Path(adapter_of(row)) if adapter_of(row) else None,
        [kept, asked, asked],
        [f"key-{number}" for number in range(50)],
        settings={**settings, "ttl_seconds": "2"},
        distribution=row.install.distribution,
    )
    command = command_of(catalogue.host(row.host), row, limits)
    with Conversation(command, tmp_path / "words") as host:
        host.load_or_skip(plan.load())
        host.ask(plan.open(bytes_max=limits.bytes), Opened)
        stored_ns = time.monotonic_ns()
        assert host.run(0).actions["set"].miss == 0
        found = host.run(1).actions["get"]
        # On a machine that stalled meanwhile, they may have expired.
        assert found.miss == 0 or time.monotonic_ns() - stored_ns > 1_000_000_000
        time.sleep(3.5)
        assert host.run(2).actions["get"].miss == 50
