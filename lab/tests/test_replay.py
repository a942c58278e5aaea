"""Hit ratios at equal measured bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest

from lab.disk import bytes_occupied
from lab.runner import traces
from lab.runner.pages import small_pages
from lab.runner.plan import name_of
from lab.runner.resources import data_bytes
from lab.runner.results import ReplayCell
from lab.tests.small import contestant, replay_suite, run_replay, shipped

Left = Callable[[], list[psutil.Process]]

# Enough values that pages and slabs of a mebibyte hardly matter.
LARGE = replay_suite(["diskcache"], requests=8_000, keys=5_000, value_bytes=2_000)
PAYLOAD = LARGE.trace.distinct * 2_000


def unless_missing(cell: ReplayCell) -> ReplayCell:
    """Return a measured cell. A missing contestant skips the test, or fails it with CI=true."""
    if cell.outcome == "missing" and os.environ.get("CI") != "true":
        pytest.skip(cell.reason)
    assert (cell.outcome, cell.reason) == ("measured", "")
    return cell


# ------------------------------------------------------------------------- files, and the order


def test_a_cache_that_never_forgets_hits_all_that_can_be_hit(tmp_path: Path) -> None:
    (cell,) = run_replay(tmp_path, "honest", references=["honest"])
    requests = traces.requests(replay_suite(["honest"]).trace)
    assert cell.best.hits == len(requests.keys) - requests.distinct
    assert cell.hit_ratio == pytest.approx(requests.hit_ratio_max)
    assert cell.verdict.wrong == 0
    assert cell.weighed == "file"
    assert cell.best.bytes_settled > requests.distinct * 500
    assert list(tmp_path.iterdir()) == []


def test_others_may_occupy_what_the_reference_was_measured_to(tmp_path: Path) -> None:
    reference, greedy = run_replay(tmp_path, "greedy", "honest", references=["honest"])
    # References run first, wherever they are listed.
    assert (reference.contestant, greedy.contestant) == ("honest", "greedy")
    assert reference.equal
    assert len(reference.tries) == 1
    least = min(reference.best.bytes_peak, reference.best.bytes_settled)
    assert greedy.bytes_max == greedy.tries[0].limit == least


def test_who_cannot_keep_within_the_bytes_is_not_equal_and_says_so(tmp_path: Path) -> None:
    # It adds a file of twice its limit to what the reference needs, so every limit is too large.
    _, greedy = run_replay(tmp_path, "greedy", "honest", references=["honest"])
    assert greedy.outcome == "measured"
    assert not greedy.equal
    limits = [one.limit for one in greedy.tries]
    assert limits == sorted(limits, reverse=True)
    assert len(limits) > 1
    assert all(one.bytes_measured > greedy.bytes_max for one in greedy.tries)
    measured = f"{greedy.best.bytes_measured:,} bytes, more than the allowed {greedy.bytes_max:,}"
    assert measured in greedy.reason
    assert greedy.best.bytes_measured == min(one.bytes_measured for one in greedy.tries)


def test_without_a_reference_nobody_is_equal(tmp_path: Path) -> None:
    (cell,) = run_replay(tmp_path, "honest", references=["raises"])
    assert (cell.outcome, cell.equal, len(cell.tries)) == ("measured", False, 1)
    assert cell.bytes_max == round(0.5 * replay_suite(["honest"]).trace.distinct * 500)


def test_a_wrong_answer_and_a_failure_are_told(tmp_path: Path) -> None:
    cells = run_replay(tmp_path, "wrong_value", "raises", "missing", references=["honest"])
    wrong, failed, missing = cells
    assert wrong.verdict.wrong > 0
    assert failed.outcome == "failed"
    assert "no cache today" in failed.reason
    assert missing.outcome == "missing"
    assert not any(cell.equal for cell in cells)


def test_wrong_answers_of_every_try_count(tmp_path: Path) -> None:
    *_, wrong = run_replay(tmp_path, "honest", "wrong_value", references=["honest"])
    (alone,) = run_replay(tmp_path, "wrong_value", references=["honest"])
    assert wrong.verdict.wrong == len(wrong.tries) * alone.verdict.wrong > 0


def test_dropped_writes_show_in_the_hit_ratio(tmp_path: Path) -> None:
    honest, drops = run_replay(tmp_path, "honest", "drops_writes", references=["honest"])
    assert drops.hit_ratio < honest.hit_ratio


def test_every_result_says_where_its_requests_come_from(tmp_path: Path) -> None:
    suite = replay_suite(["honest"])
    cells = run_replay(tmp_path, "honest", "raises", references=["honest"], of=suite)
    for cell in cells:
        assert cell.source.recorded
        assert suite.trace.sha256 in cell.source.text
        assert f"{suite.trace.origin}, {suite.trace.licence}" in cell.source.text


def test_what_was_recorded_is_not_replayed_again(tmp_path: Path) -> None:
    (reference,) = run_replay(tmp_path, "honest", references=["honest"])
    reference.best.bytes_peak = reference.best.bytes_settled = 123_456
    again, greedy = run_replay(
        tmp_path,
        "greedy",
        "honest",
        references=["honest"],
        recorded={name_of(reference): reference},
    )
    assert again is reference
    # After an interruption too, the reference's measurement is the target of the others.
    assert greedy.bytes_max == 123_456


def test_bytes_are_those_of_blocks(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "one").write_bytes(b"x")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 30)
    assert 0 < bytes_occupied(tmp_path) < 1 << 20


# ------------------------------------------------------------------------------ memory of clients


@pytest.mark.parametrize("name", ["dict:copied", "native_hashmap", "perl_hash", "php_array"])
def test_memory_that_grows_is_at_least_what_was_stored(tmp_path: Path, name: str) -> None:
    (cell,) = run_replay(tmp_path, shipped(name, weighed="client"), references=[], of=LARGE)
    cell = unless_missing(cell)
    assert cell.best.hits == LARGE.trace.requests - LARGE.trace.distinct
    # Less would be memory that the host had freed before, which is not counted.
    assert PAYLOAD <= cell.best.bytes_peak <= 1.3 * PAYLOAD


@pytest.mark.parametrize("name", ["null", "native_null", "perl_null", "php_null"])
def test_what_the_host_remembers_is_not_weighed(tmp_path: Path, name: str) -> None:
    (cell,) = run_replay(tmp_path, shipped(name, weighed="client"), references=[], of=LARGE)
    cell = unless_missing(cell)
    assert cell.best.hits == 0
    assert cell.best.bytes_peak <= 64 << 10


def test_a_process_has_its_data_and_no_mapped_files(tmp_path: Path) -> None:
    path = tmp_path / "mapped"
    path.write_bytes(b"x" * (64 << 20))
    script = (
        "import mmap, sys; file = open(sys.argv[1], 'r+b'); map = mmap.mmap(file.fileno(), 0); "
        "sum(map[::4096]); held = bytearray(b'x' * (32 << 20)); print(flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        held = data_bytes(process.pid)
        process.communicate(b"\n")
    assert 32 << 20 <= held < 60 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's own wish")
def test_nobody_gets_huge_pages_while_memory_is_weighed() -> None:
    def huge_pages() -> str:
        command = ["grep", "THP_enabled", "/proc/self/status"]
        return subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip()

    if not (before := huge_pages()):
        pytest.skip("the kernel does not tell")
    with small_pages():
        assert huge_pages().endswith("0")
    assert huge_pages() == before


# ------------------------------------------------------------- real caches at equal measured bytes


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ReplayCell]:
    """Return cells of DiskCache, the reference, and of others that store nothing in a folder."""
    names = ("diskcache", "pylibmc:socket", "redis:socket", "native_moka:copied", "cachebox")
    rows = [shipped(name) for name in names]
    cells = run_replay(tmp_path_factory.mktemp("real"), *rows, references=["diskcache"], of=LARGE)
    return {cell.contestant: cell for cell in cells}


@pytest.mark.parametrize(
    ("name", "weighed", "share"),
    [
        ("pylibmc:socket", "server", 0.6),
        ("redis:socket", "server", 0.9),
        ("native_moka:copied", "client", 0.9),
        ("cachebox", "client", 0.9),
    ],
)
def test_what_keeps_nothing_in_a_folder_gets_as_many_bytes(
    real: dict[str, ReplayCell], name: str, weighed: str, share: float
) -> None:
    unless_missing(real["diskcache"])
    cell = unless_missing(real[name])
    assert cell.weighed == weighed
    assert cell.equal
    assert share * cell.bytes_max <= cell.best.bytes_measured <= cell.bytes_max
    assert cell.bytes_max == real["diskcache"].best.bytes_settled
    # It was full and evicted, and every hit was correct.
    assert 0.1 < cell.hit_ratio < LARGE.trace.hit_ratio_max - 0.02
    assert cell.verdict.wrong == 0
    assert all(one.requests == LARGE.trace.requests for one in cell.tries)


def test_a_limit_that_is_only_nominal_is_corrected(real: dict[str, ReplayCell]) -> None:
    cell = unless_missing(real["native_moka:copied"])
    first = cell.tries[0]
    # It weighs keys and values but not its tables, so with the target as limit it exceeds it.
    assert first.limit == cell.bytes_max
    assert first.bytes_measured > 1.05 * cell.bytes_max
    assert cell.best.limit < first.limit
    assert cell.best.hits < first.hits


def test_the_version_of_a_server_is_recorded(real: dict[str, ReplayCell]) -> None:
    assert unless_missing(real["pylibmc:socket"]).server_version.startswith("memcached ")


# ---------------------------------------------------------------------------------------- servers


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ("mortal", "the server mortal died: signal SIGKILL, last output: tiny: out of luck"),
        ("broken", "the server broken did not start: exit status 1, last output: tiny: no server"),
    ],
)
def test_a_server_that_goes_wrong_fails_its_cell(
    tmp_path: Path, processes_in: Left, form: str, reason: str
) -> None:
    honest, wrong = run_replay(tmp_path, "honest", f"served:{form}", references=["honest"])
    assert wrong.outcome == "failed"
    assert reason in wrong.reason
    assert honest.outcome == "measured"
    assert processes_in() == []
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_cannot_be_installed_keeps_its_row(tmp_path: Path) -> None:
    (cell,) = run_replay(tmp_path, "served:unavailable", references=["honest"])
    assert cell.outcome == "unavailable"
    assert cell.reason


def test_a_limit_below_the_least_of_a_store_keeps_the_tries_before(tmp_path: Path) -> None:
    # With a smaller limit it refuses to open, and with the target it uses more.
    row = msgspec.structs.replace(contestant("greedy"), settings={"refuses_below": "100000"})
    _, greedy = run_replay(tmp_path, "honest", row, references=["honest"])
    *ran, last = greedy.tries
    assert greedy.outcome == "measured"
    assert ran
    assert all(one.requests and not one.reason for one in ran)
    assert "too little" in last.reason
    assert not greedy.equal
