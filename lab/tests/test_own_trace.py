"""The user's own trace becomes a suite, or an error message."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from lab.__main__ import main
from lab.runner import catalogue, own_trace
from lab.runner.catalogue import CatalogueError
from lab.runner.traces import FOLDER
from lab.runner.workloads import taking_part

# Keys 0 to 99 repeatedly, some far more often: 3,000 requests of 4 KB.
REQUESTS = [number % 100 if number % 3 else number % 10 for number in range(3_000)]


def written(folder: Path, size: int = 4_096) -> Path:
    path = folder / "Shop 2026.csv"
    path.write_text("key,size\n" + "".join(f"k{key},{size}\n" for key in REQUESTS), "ascii")
    return path


def test_a_trace_has_its_own_sizes_or_the_one_that_is_asked_for(tmp_path: Path) -> None:
    own = own_trace.suite_of(written(tmp_path), [0.9])
    assert own.name == "shop-2026"
    assert (own.trace.requests, own.trace.distinct) == (3_000, 100)
    assert (own.trace.bytes_distinct, own.replay.value_bytes) == (409_600, 0)
    given = own_trace.suite_of(written(tmp_path, 1), [0.9], 8_192)
    assert (given.trace.bytes_distinct, given.replay.value_bytes) == (0, 8_192)


def test_a_trace_with_the_name_of_a_suite_has_another() -> None:
    assert own_trace.suite_of(FOLDER / "web07.csv.zst", value_bytes=2_000).name == "own-web07"


@pytest.mark.parametrize(
    ("capacities", "size", "says"),
    [
        ([0.0], 4_096, "--capacity 0: it must be above 0 and at most 1"),
        ([1.5], 4_096, "--capacity 1.5: it must be above 0"),
        ([0.5], 1, "50% of all its values are 50 bytes, but contestants need at least"),
    ],
)
def test_what_nobody_can_replay_is_refused(
    tmp_path: Path, capacities: list[float], size: int, says: str
) -> None:
    with pytest.raises(CatalogueError, match=says):
        own_trace.suite_of(written(tmp_path, size), capacities)


def test_who_cannot_replay_has_a_reason() -> None:
    rows = catalogue.contestants()
    assert own_trace.refusal(rows["perl_hash"]) == "it cannot limit bytes"
    assert own_trace.refusal(rows["null"]) == "it stores nothing"
    assert own_trace.refusal(rows["tuckbox"]) == ""


def test_the_rows_of_web07_that_were_made_for_replays_take_part_too() -> None:
    rows = list(catalogue.contestants().values())
    found, _ = taking_part("mine", own_trace.refusal, rows, "smoke")
    assert {"diskcache_lru", "redis:lfu"} < {row.name for row in found if "mine" in row.suites}


def test_the_command_replays_a_trace_at_equal_bytes(tmp_path: Path) -> None:
    arguments = ["run", "--trace", str(written(tmp_path)), "--capacity", "0.8", "--quick"]
    arguments += ["--records", str(tmp_path / "records")]
    for name in ("tuckbox", "native_quick_cache:copied"):
        arguments += ["--contestant", name]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert "shop-2026: Hit ratios on Shop 2026.csv" in done.output
    assert "tuckbox" in done.output
    assert "3,000 requests" in " ".join(done.output.split())


def test_options_of_traces_want_a_trace() -> None:
    done = CliRunner().invoke(main, ["run", "web07", "--capacity", "0.5"])
    assert done.exit_code == 2
    assert "--capacity, --value-size and --trace-format need --trace" in done.output
