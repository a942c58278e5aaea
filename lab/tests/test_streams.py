"""The operation streams: their statistics, their files, the same for all contestants."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from lab import stream
from lab.protocol import Measure
from lab.runner import catalogue, streams
from lab.runner.catalogue import CatalogueError, Form, Part, Phase, PhasesSuite, Variant
from lab.runner.inputs import ANSWER_BYTES_MAX, Pace, PlannedPass, inputs, pace
from lab.runner.streams import draw, keys_drawn, operations
from lab.tests.small import FILL, FORM, MIX, SIZES, contestant, session, suite, variant

COUNT = 60_000
MEASURES: tuple[Measure, ...] = ("untimed", "throughput", "latency")
FULL = Form(**{**FORM, "operations": 1.0})  # type: ignore[arg-type]


def drawn(
    phase: dict[str, object],
    *,
    keys: int = 1_100,
    sizes: object = SIZES,
    seed: int = 1,
    worker: int = 0,
) -> list[stream.Operation]:
    """Return a stream of the only phase of a part."""
    whole = {"name": "only", "passes": ["latency"], "operations": COUNT, **phase}
    (part,) = suite(1, steps=[whole], variants=[variant(keys=keys, sizes=sizes)]).parts
    thrown = streams.dice(seed, "suite", "part", "variant", "only", "latency", worker)
    return list(draw(part.phases[0], part, part.variants[0], FULL, thrown))


DJANGO: dict[str, object] = {"shares": {"get": 0.90, "set": 0.09, "delete": 0.01}}


@pytest.fixture(scope="module")
def mixed() -> list[stream.Operation]:
    sizes = {"shape": "digits", "numbers": 100_000, "repeats_min": 1, "repeats_max": 99}
    return drawn(DJANGO, sizes=sizes)


def is_about(count: int, chance: float, of: int) -> bool:
    """Return whether a count is within five standard deviations of a binomial distribution."""
    return bool(abs(count - of * chance) < 5 * (of * chance * (1 - chance)) ** 0.5)


def test_shares_are_those_of_the_suite(mixed: list[stream.Operation]) -> None:
    counts = Counter(operation.verb for operation in mixed)
    for verb, share in ((stream.GET, 0.90), (stream.SET, 0.09), (stream.DELETE, 0.01)):
        assert is_about(counts[verb], share, COUNT)


def test_keys_are_uniform(mixed: list[stream.Operation]) -> None:
    counts = Counter(operation.key for operation in mixed)
    assert set(counts) == set(range(1_100))
    expected = COUNT / 1_100
    chi_squared = sum((count - expected) ** 2 / expected for count in counts.values())
    # Mean 1,099 and standard deviation 47 for a uniform choice.
    assert 1_099 - 5 * 47 < chi_squared < 1_099 + 5 * 47


def test_only_sets_have_a_size_and_it_is_that_of_the_original(
    mixed: list[stream.Operation],
) -> None:
    sizes = [one.size for one in mixed if one.verb == stream.SET]
    assert all(one.size == 0 for one in mixed if one.verb != stream.SET)
    assert min(sizes) >= 1
    assert max(sizes) <= 5 * 99
    # Digits of a number below 100,000: 4.889 on average; repeats: 50.
    assert sum(sizes) / len(sizes) == pytest.approx(4.889 * 50, rel=0.05)


@pytest.mark.parametrize(
    ("sizes", "least", "most", "mean"),
    [
        ({"shape": "uniform", "mean": 147}, 1, 293, 147),
        ({"shape": "fixed", "size": 2_222_981}, 2_222_981, 2_222_981, 2_222_981),
        ({"shape": "uniform", "mean": 1}, 1, 1, 1),
    ],
)
def test_sizes(sizes: dict[str, object], least: int, most: int, mean: float) -> None:
    found = [one.size for one in drawn({"shares": {"set": 1.0}}, sizes=sizes)]
    assert (min(found), max(found)) == (least, most)
    assert sum(found) / len(found) == pytest.approx(mean, rel=0.02)


def test_absent_keys_are_never_stored(mixed: list[stream.Operation]) -> None:
    found = drawn({"shares": {"get": 0.8, "set": 0.2}, "absent": 0.15}, keys=500)
    gets = [one.key for one in found if one.verb == stream.GET]
    beyond = [key for key in gets if key >= 500]
    assert is_about(len(beyond), 0.15, len(gets))
    assert set(beyond) == set(range(500, 1_000))
    assert all(one.key < 500 for one in found if one.verb != stream.GET)


def test_a_sweep_has_every_key_once_and_then_is_random() -> None:
    found = [one.key for one in drawn({"shares": {"set": 1.0}, "order": "sweep"})]
    assert sorted(found[:1_100]) == list(range(1_100))
    assert found[:1_100] != list(range(1_100))
    counts = Counter(found[1_100:])
    assert max(counts.values()) > min(counts.values())


def test_once_is_in_order_and_begins_again() -> None:
    found = [one.key for one in drawn({"shares": {"get": 1.0}, "order": "once"}, keys=1_000)]
    assert found == list(range(1_000)) * 60


def test_without_deletes_there_is_none_whatever_the_rounding() -> None:
    # The shares of `chi-2010` add up to one ten-billionth less than 1.
    shares = {"get": 0.990_099_009_9, "set": 0.009_900_990_0}
    assert not [one for one in drawn({"shares": shares}) if one.verb == stream.DELETE]


def test_a_seed_repeats_and_everything_else_makes_a_difference() -> None:
    first, again, worker, seed = (
        drawn(DJANGO, **arguments) for arguments in ({}, {}, {"worker": 1}, {"seed": 2})
    )
    assert first == again
    assert first != worker
    assert first != seed
    throws = {
        streams.dice(1, suite, part, of_variant, phase, measure, 0).random()
        for suite in ("suite", "other")
        for part in ("part", "other")
        for of_variant in ("variant", "other")
        for phase in ("phase", "other")
        for measure in MEASURES
    }
    assert len(throws) == 2**4 * len(MEASURES)


def the_part(
    steps: Sequence[dict[str, object]], keys: int
) -> tuple[tuple[Phase, ...], Part, Variant]:
    (part,) = suite(1, steps=steps, variants=[variant(keys=keys)]).parts
    return tuple(part.phases), part, part.variants[0]


def test_a_form_shortens_phases_but_no_preload_and_no_sweep_that_stores() -> None:
    sweep = {"name": "sweep", "operations": 40_000, "shares": {"set": 1.0}, "order": "sweep"}
    sweep["passes"] = ["latency"]
    phases, part, only = the_part([FILL, sweep, {**MIX, "operations": 40_000}], keys=500)
    short = Form(operations=0.01, rounds=1, phase_seconds_max=1, cell_seconds_max=1)
    assert [operations(phase, part, only, short) for phase in phases] == [500, 500, 400]
    assert [operations(phase, part, only, FULL) for phase in phases] == [500, 40_000, 40_000]
    shorter = Form(operations=0.001, rounds=1, phase_seconds_max=1, cell_seconds_max=1)
    # At least 300, and never more than the suite has.
    assert operations(phases[2], part, only, shorter) == 300
    phases, part, only = the_part([{**MIX, "operations": 40}], keys=500)
    assert operations(phases[0], part, only, shorter) == 40


def test_a_shortened_fill_in_order_is_what_the_other_phases_ask_for() -> None:
    put = {"name": "put", "operations_per_key": 1, "shares": {"set": 1.0}, "order": "once"}
    get = {"name": "get", "operations_per_key": 1, "shares": {"get": 1.0}, "order": "sweep"}
    steps: list[dict[str, object]] = [
        {**put, "passes": ["latency"]},
        {**get, "passes": ["latency"]},
    ]
    phases, part, only = the_part(steps, keys=10_000)
    short = Form(operations=0.03, rounds=1, phase_seconds_max=1, cell_seconds_max=1)
    assert keys_drawn(part, only, short) == 300
    thrown = streams.dice(1, "s", "p", "v", "get", "latency", 0)
    found = [one.key for one in draw(phases[1], part, only, short, thrown)]
    assert sorted(found) == list(range(300))
    assert keys_drawn(part, only, FULL) == 10_000


def test_the_warm_up_is_at_most_half() -> None:
    phase = the_part([{**MIX, "warmup": 1_001}], keys=1_100)[0][0]
    assert [streams.warmup(phase, count) for count in (100_000, 4_000, 300)] == [1_001, 400, 30]


def test_the_full_form_counts_the_operations_of_the_original() -> None:
    django = catalogue.suite("django")
    assert isinstance(django, PhasesSuite)
    part = next(part for part in django.parts if part.name == "main")
    mix = next(phase for phase in part.phases if phase.passes)
    count = operations(mix, part, part.variants[0], django.form("full"))
    assert part.processes * (count - streams.warmup(mix, count)) == 791_992


def test_uuid_keys_are_uuids_of_the_seed() -> None:
    keys = [streams.key_text("uuid", 1, number) for number in range(1_000)]
    assert len(set(keys)) == 1_000
    assert all(str(uuid.UUID(key)) == key and len(key) == 36 for key in keys)
    assert keys[0] == streams.key_text("uuid", 1, 0) != streams.key_text("uuid", 2, 0)
    assert streams.key_text("decimal", 1, 17) == "17"


def test_the_files_of_a_variant(tmp_path: Path) -> None:
    chosen = suite(3)
    (part,) = chosen.parts
    with session(tmp_path) as one:
        with inputs(one, chosen, part, part.variants[0], FULL) as given:
            lines = given.keys.read_text("ascii").splitlines()
            found = [
                [list(stream.read(Path(of.path))) for of in phase.streams] for phase in given.phases
            ]
        # They are deleted again.
        assert list(one.desk.folder.iterdir()) == []
    assert lines == [str(number) for number in range(60)]
    assert [phase.name for phase in given.phases] == [
        "fill/untimed",
        "mix/throughput",
        "mix/latency",
    ]
    # A preload has one stream for any number of workers.
    assert [len(phase.streams) for phase in given.phases] == [1, 3, 3]
    assert sorted(operation.key for operation in found[0][0]) == list(range(60))
    # No two operations of a run have the same sequence, and they rise for each worker.
    spans = [
        (of.base, of.base + len(operations))
        for phase, streams_ in zip(given.phases, found, strict=True)
        for of, operations in zip(phase.streams, streams_, strict=True)
    ]
    assert spans[0][0] == 1
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    for planned, streams_ in zip(given.passes, found, strict=True):
        assert planned.verbs == [bytes(one.verb for one in each) for each in streams_]
        assert all(len(each) == planned.operations for each in streams_)
    # Each pass has its own stream.
    assert found[1] != found[2]


def planned(operations: int) -> PlannedPass:
    phase = the_part([MIX], keys=10)[0][0]
    return PlannedPass(phase, "throughput", 0, operations, warmup=0, verbs=[])


def test_blocks_are_smaller_where_values_are_large() -> None:
    row = contestant("honest")
    sizes = {"shape": "fixed", "size": 2_222_981}
    large = suite(1, variants=[variant(sizes=sizes)]).parts[0].variants[0]
    small = suite(1).parts[0].variants[0]
    assert pace(planned(700), row, small, 1, 1) == Pace(256, 256, 1, 1)
    assert pace(planned(700), row, large, 1, 1) == Pace(30, 30, 1, 1)
    assert 30 * 2_222_981 <= ANSWER_BYTES_MAX < 31 * 2_222_981
    assert pace(planned(700), msgspec.structs.replace(row, block=4), small, 1, 1).block == 4
    # Several workers are not paused for a check.
    assert pace(planned(700), row, small, 8, 2) == Pace(256, 700, 8, 2)
    with pytest.raises(CatalogueError, match="8 workers would keep 12"):
        pace(planned(700), row, large, 8, 2)


def test_a_file_gives_back_what_was_written(tmp_path: Path, mixed: list[stream.Operation]) -> None:
    stream.write(tmp_path / "w.ops", mixed)
    assert list(stream.read(tmp_path / "w.ops")) == mixed


@pytest.mark.parametrize("content", [b"", b"something else", b"LABOPS01" + b"x" * 5])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "w.ops"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"w\.ops is not an operation stream"):
        list(stream.read(path))
