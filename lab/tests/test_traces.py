"""The requests of a replay: the repository's trace, and every kind of malformed trace."""

from __future__ import annotations

import gzip
from pathlib import Path

import msgspec
import pytest
import zstandard

from lab.runner import catalogue, traces
from lab.runner.catalogue import ReplaySuite
from lab.runner.traces import TraceError
from lab.tests.small import replay_suite

SUITES = [one for one in catalogue.suites().values() if isinstance(one, ReplaySuite)]


def written(folder: Path, content: bytes, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_a_suites_trace_is_in_the_repository_and_what_it_says(suite: ReplaySuite) -> None:
    requests = traces.requests(suite.trace)
    assert (len(requests.keys), requests.distinct) == (suite.trace.requests, suite.trace.distinct)
    assert requests.hit_ratio_max == suite.trace.hit_ratio_max
    assert suite.trace.sha256 in (traces.FOLDER / "README.md").read_text("utf-8")


def test_web07_is_the_published_trace() -> None:
    suite = catalogue.suite("web07")
    assert isinstance(suite, ReplaySuite)
    requests = traces.requests(suite.trace)
    assert (len(requests.keys), requests.distinct) == (76_118, 20_484)
    assert requests.hit_ratio_max == pytest.approx(0.7309, abs=0.00005)


def test_a_trace_that_was_changed_is_refused(tmp_path: Path) -> None:
    trace = replay_suite(["honest"]).trace
    content = Path(trace.file).read_bytes()
    changed = written(tmp_path, content.replace(b"7,1\n", b"8,1\n", 1))
    with pytest.raises(TraceError, match=rf"its SHA-256 is [0-9a-f]{{64}}, not {trace.sha256}"):
        traces.requests(msgspec.structs.replace(trace, file=str(changed)))


def test_a_trace_that_is_not_there_is_refused(tmp_path: Path) -> None:
    trace = msgspec.structs.replace(replay_suite(["honest"]).trace, file=str(tmp_path / "none"))
    with pytest.raises(TraceError, match="none cannot be read: No such file"):
        traces.requests(trace)


@pytest.mark.parametrize("packed", [False, True])
def test_keys_are_numbered_by_their_first_request(tmp_path: Path, packed: bool) -> None:
    content = b"key,size\nb,10\n/a?x=1,20\nb,30\n"
    path = (
        written(tmp_path, zstandard.compress(content), "t.csv.zst")
        if packed
        else written(tmp_path, content)
    )
    requests = traces.read(path)
    assert requests.texts == ["b", "/a?x=1"]
    assert list(requests.keys) == [0, 1, 0]
    assert list(requests.sizes) == [10, 20, 30]


def test_a_file_without_the_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="line 1: a trace starts with the line 'key,size', "):
        traces.read(written(tmp_path, b"time,key\n1,10\n"))


@pytest.mark.parametrize("content", [b"", b"key,size\n"])
def test_a_file_without_requests_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(TraceError, match="has no requests"):
        traces.read(written(tmp_path, content))


def test_what_is_not_compressed_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, b"key,size\n1,1\n", "t.csv.zst")
    with pytest.raises(TraceError, match=r"is incomplete, or not compressed as \.zst says"):
        traces.read(path)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"1", "line 3: it has 1 fields, not 2"),
        (b"1,2,3", "line 3: it has 3 fields, not 2"),
        (b",2", "line 3: the key '' is not printable ASCII without blanks"),
        (b"a b,2", "line 3: the key 'a b' is not"),
        (b"\xff,2", "line 3: the key .* is not"),
        (b"\x07,2", "line 3: the key .* is not"),
        (b"1,", "line 3: the size '' is not a number of at least 1"),
        (b"1,0", "line 3: the size '0' is not"),
        (b"1,-5", "line 3: the size '-5' is not"),
        (b"1,3145729", "line 3: the size 3,145,729 is above the maximum of 3,145,728"),
    ],
)
def test_a_bad_line_is_named_by_its_number(tmp_path: Path, line: bytes, says: str) -> None:
    with pytest.raises(TraceError, match=rf"t\.csv, {says}"):
        traces.read(written(tmp_path, b"key,size\n1,1\n" + line + b"\n2,1\n"))


def test_only_the_first_bad_lines_are_told(tmp_path: Path) -> None:
    path = written(tmp_path, b"key,size\n" + b"x\n" * 9)
    with pytest.raises(TraceError, match=r"line 2: .*; line 6: .*; and 4 more bad lines") as error:
        traces.read(path)
    assert "line 7" not in str(error.value)


def test_ops_and_ttls_are_read_and_checked(tmp_path: Path) -> None:
    found = traces.read(
        written(tmp_path, b"key,size,op,ttl\na,10,get,0\na,10,set,1.5\nb,7,delete,\n")
    )
    assert (found.texts, list(found.keys)) == (["a", "b"], [0, 0, 1])
    assert found.bytes_distinct == 17


def test_bad_ops_and_ttls_are_named_by_their_lines(tmp_path: Path) -> None:
    content = b"key,size,op,ttl\na,10,get,0\na,10,fly,0\na,10,set,soon\na,10,set\n"
    says = (
        "line 3: the op 'fly' is not one of get, set, delete; line 4: the ttl 'soon' is not a "
        "number of seconds"
    )
    with pytest.raises(TraceError, match=f"{says}; line 5: it has 3 fields, not 4"):
        traces.read(written(tmp_path, content))


@pytest.mark.parametrize("suffix", [".zst", ".gz"])
def test_a_compressed_trace_has_all_its_parts_and_its_end(tmp_path: Path, suffix: str) -> None:
    pack = zstandard.compress if suffix == ".zst" else gzip.compress
    whole = pack(b"key,size\na,1\n") + pack(b"b,2\n")
    assert traces.read(written(tmp_path, whole, f"t.csv{suffix}")).texts == ["a", "b"]
    cut = written(tmp_path, whole[:-9], f"cut.csv{suffix}")
    with pytest.raises(TraceError, match="is incomplete"):
        traces.read(cut)


def test_sizes_that_nobody_stores_may_be_of_any_length(tmp_path: Path) -> None:
    path = written(tmp_path, b"key,size\n1,9000000\n")
    assert traces.read(path, sized=False).distinct == 1
    with pytest.raises(TraceError, match=r"line 2: the size 9,000,000 is above .* --value-size"):
        traces.read(path)
