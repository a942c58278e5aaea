"""All hosts give the same results: the same streams, counts and verdicts.

The whole runner drives the honest contestant of each language, which is compared with a
dictionary that runs the same streams here. Every kind of fault must be detected in each language.
Each host also has its own test file.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest

from lab import stream
from lab.protocol import ACTIONS, Action, Tally
from lab.runner import catalogue, traces
from lab.runner.catalogue import LAB, PhasesSuite, host
from lab.runner.inputs import inputs
from lab.runner.judgement import faults
from lab.runner.results import Pass, PhasesCell
from lab.runner.summary import summarise
from lab.tests.small import (
    CONTESTANTS,
    FILL,
    MIX,
    contestant,
    replay_suite,
    run_replay,
    run_suite,
    session,
    suite,
    variant,
)

Left = Callable[[], list[psutil.Process]]

RUNTIMES = sorted(catalogue.hosts())
ALL_MUST_BE_HERE = os.environ.get("CI") == "true"
WEAK_BELOW_BYTES = 8

STEPS = [
    FILL,
    {**MIX, "absent": 0.1, "block": 64, "steps": [1, 100]},
    {**MIX, "name": "get", "shares": {"get": 1.0}, "passes": ["latency"]},
]
# Values from one byte to more than the derivation's first block, and maps.
BINARY = suite(
    1, steps=STEPS, empties=True, variants=[variant(sizes={"shape": "uniform", "mean": 40})]
)
LARGE = suite(1, steps=STEPS, variants=[variant(sizes={"shape": "fixed", "size": 70_000})])
COMPLEX = suite(
    1, steps=STEPS, variants=[variant(value="complex", sizes={"shape": "fixed", "size": 16})]
)


def control(runtime: str, name: str) -> str:
    return name if runtime == "python" else f"{runtime}_{name}"


@pytest.fixture(scope="module", params=RUNTIMES)
def runtime(request: pytest.FixtureRequest) -> str:
    """Return the name of a host that can run here."""
    name = str(request.param)
    program = "cargo" if name == "native" else host(name).command[0]
    if shutil.which(program) is None and program != "{python}":
        if ALL_MUST_BE_HERE:
            pytest.fail(f"{program} is not installed, and here it must be")
        pytest.skip(f"{program} is not installed")
    if name == "native":
        packages = [
            f"--package={path.name}" for path in CONTESTANTS.glob("native_*") if path.is_dir()
        ]
        subprocess.run(
            ["cargo", "build", "--quiet", "--release", "--locked", *packages],
            cwd=LAB,
            env={**os.environ, "CARGO_TARGET_DIR": str(LAB / "target")},
            check=True,
        )
    return name


def expected(of: PhasesSuite) -> dict[tuple[str, str], tuple[dict[Action, Tally], int]]:
    """Return the tallies and weak answers of each pass, computed with a dictionary of sizes."""
    (part,) = of.parts
    (only,) = part.variants
    store: dict[int, int] = {}
    found: dict[tuple[str, str], tuple[dict[Action, Tally], int]] = {}
    with session(Path("/tmp")) as one, inputs(one, of, part, only, of.form("full")) as given:
        for planned, phase in zip(given.passes, given.phases, strict=True):
            tallies: dict[Action, Tally] = {action: Tally() for action in ACTIONS}
            weak = 0
            (recorded,) = phase.streams
            for position, (verb, key, size) in enumerate(stream.read(Path(recorded.path))):
                tally = tallies[ACTIONS[verb]] if position >= planned.warmup else Tally()
                tally.count += 1
                if verb == stream.SET:
                    store[key] = size
                elif key not in store:
                    tally.miss += 1
                    tally.absent += verb == stream.GET
                elif verb == stream.DELETE:
                    del store[key]
                elif only.value == "binary" and store[key] < WEAK_BELOW_BYTES:
                    weak += 1
            found[planned.phase.name, planned.measure] = tallies, weak
    return found


def passes_of(cell: PhasesCell) -> dict[tuple[str, str], Pass]:
    found = {}
    for phase in cell.phases:
        for measure, one in (("throughput", phase.throughput), ("latency", phase.latency)):
            if one is not None:
                found[phase.name, measure] = one
    return found


def run_one(data: Path, name: str, of: PhasesSuite) -> PhasesCell:
    (cell,) = run_suite(data, name, of=of)
    return cell


def faults_of(cell: PhasesCell, of: PhasesSuite) -> str:
    return "; ".join(faults(summarise(of, [contestant(cell.contestant)], [cell]), []))


@pytest.mark.parametrize("of", [BINARY, LARGE, COMPLEX], ids=["binary", "large", "complex"])
def test_an_honest_store_gives_what_a_dictionary_would(
    tmp_path: Path, processes_in: Left, runtime: str, of: PhasesSuite
) -> None:
    name = control(runtime, "honest")
    value = of.parts[0].variants[0].value
    if value not in contestant(name).values:
        pytest.skip(f"{name} takes no {value} values")
    cell = run_one(tmp_path, name, of)
    assert (cell.outcome, cell.reason) == ("measured", "")
    wanted = expected(of)
    found = passes_of(cell)
    assert set(found) == set(wanted) - {("fill", "untimed")}
    for pass_name, one in found.items():
        tallies, weak = wanted[pass_name]
        assert {action: one.actions[action].tally for action in ACTIONS} == tallies, pass_name
        verdict = one.verdict
        assert (verdict.wrong, verdict.stale, verdict.lost) == (0, 0, 0)
        assert verdict.weak == weak, pass_name
        assert one.done == one.planned
        assert 0 < one.together_ns == one.elapsed_ns
    mix = found["mix", "latency"]
    assert [step.count for step in mix.steps] == [1, 100]
    assert 0 < mix.steps[0].total_ns <= mix.steps[1].total_ns
    assert found["mix", "throughput"].block_operations == 64
    assert found["mix", "throughput"].block_ns > 0
    # All operations ran under the clock.
    assert sum(stat.total_ns for stat in mix.actions.values()) <= mix.elapsed_ns
    assert cell.probe_keys == 64
    assert cell.refused == 0
    assert cell.version is not None
    assert cell.runtime
    assert min(cell.start_ns, cell.create_ns, cell.stop_ns) > 0
    assert (cell.clear_ns is not None) == of.parts[0].empties
    assert cell.resources.client_bytes_full > 0
    assert faults_of(cell, of) == ""
    assert processes_in() == []


def test_a_wrong_value_is_caught(tmp_path: Path, runtime: str) -> None:
    cell = run_one(tmp_path, control(runtime, "wrong_value"), BINARY)
    assert cell.outcome == "measured"
    assert sum(one.verdict.wrong for one in passes_of(cell).values()) > 0
    assert "wrong values" in faults_of(cell, BINARY)


def test_dropped_writes_are_caught(tmp_path: Path, runtime: str) -> None:
    cell = run_one(tmp_path, control(runtime, "drops_writes"), BINARY)
    assert cell.outcome == "measured"
    # The probe finds them lost, and the phases find fewer than were stored.
    assert cell.probe.lost > 0
    gets = [one.actions["get"].tally for one in passes_of(cell).values()]
    assert sum(get.miss for get in gets) > sum(get.absent for get in gets)
    assert "lost entries" in faults_of(cell, BINARY)


def test_an_old_value_is_caught(tmp_path: Path, runtime: str) -> None:
    cell = run_one(tmp_path, control(runtime, "stale"), BINARY)
    assert cell.outcome == "measured"
    verdicts = [cell.probe, *(one.verdict for one in passes_of(cell).values())]
    assert sum(one.stale for one in verdicts) > 0
    assert sum(one.wrong for one in verdicts) == 0
    assert "stale values" in faults_of(cell, BINARY)


def test_a_death_is_told(tmp_path: Path, processes_in: Left, runtime: str) -> None:
    cell = run_one(tmp_path, control(runtime, "dies"), BINARY)
    assert cell.outcome == "failed"
    assert "worker 0 died in " in cell.reason
    assert processes_in() == []
    assert list(tmp_path.iterdir()) == []


def test_a_hang_is_told(tmp_path: Path, processes_in: Left, runtime: str) -> None:
    short = suite(1, steps=STEPS, form={"cell_seconds_max": 4.0})
    cell = run_one(tmp_path, control(runtime, "hangs"), short)
    assert cell.outcome == "failed"
    assert "worker 0 hung in " in cell.reason
    assert "no answer in time, killed" in cell.reason
    assert processes_in() == []
    assert list(tmp_path.iterdir()) == []


def test_a_pass_ends_at_its_limit_of_time(tmp_path: Path, runtime: str) -> None:
    # Without a warm-up, the first block counts, even if it was slow.
    endless = {**MIX, "operations": 200_000, "block": 16, "warmup": 0}
    short = suite(
        1,
        steps=[endless],
        variants=[variant(sizes={"shape": "fixed", "size": 100_000})],
        form={"phase_seconds_max": 0.4},
    )
    cell = run_one(tmp_path, control(runtime, "honest"), short)
    assert (cell.outcome, cell.reason) == ("measured", "")
    for one in passes_of(cell).values():
        assert 0 < one.done < one.planned
        assert sum(stat.tally.count for stat in one.actions.values()) == one.done


def test_a_replay_hits_all_that_can_be_hit(tmp_path: Path, runtime: str) -> None:
    name = control(runtime, "honest")
    (cell,) = run_replay(tmp_path, name, references=[name])
    requests = traces.requests(replay_suite([name]).trace)
    assert (cell.outcome, cell.reason) == ("measured", "")
    assert cell.best.requests == len(requests.keys)
    assert cell.best.hits == len(requests.keys) - requests.distinct
    assert (cell.best.refused, cell.verdict.wrong) == (0, 0)
