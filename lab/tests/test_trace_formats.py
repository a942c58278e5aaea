"""Traces in other formats: what is read, how a format is recognised, what is refused."""

from __future__ import annotations

import socket
import struct
import subprocess
import time
from pathlib import Path

import pytest
import zstandard
from click.testing import CliRunner

from lab.__main__ import main
from lab.runner import own_trace, traces
from lab.runner.catalogue import CatalogueError
from lab.runner.trace_formats import FORMATS
from lab.runner.traces import TraceError

BIG = (1 << 64) - 2
ORACLE = b"".join(
    struct.pack("<IQIq", number, key, size, next_)
    for number, (key, size, next_) in enumerate(
        [(BIG, 300, 2), (7, 0, -1), (BIG, 300, (1 << 63) - 1), (9, 5, -1)]
    )
)
TWR = [(BIG, 30 << 22 | 300, 1 << 24), (7, 9 << 22, 1 << 24), (BIG, 30 << 22 | 300, 3 << 24 | 60)]
VSCSI = [(BIG, 4_096), (7, 512), (BIG, 4_096)]
TWITTER = b"""0,nz:u:ee,30,0,1,get,0
0,nz:u:ee,30,175,1,set,3600
1,a,b,4,9,2,get,0
2,nz:u:ee,30,175,1,gets,0
"""
MEMCACHED = b"""OK
ts=1.1 gid=2 type=item_get key=a%3Db status=not_found clsid=0 cfd=24 size=0
ts=1.2 gid=3 type=item_store key=a%3Db status=stored cmd=set ttl=60 clsid=1 cfd=24 size=5
ts=1.3 gid=4 type=eviction key=z fetch=yes ttl=-1 la=3 clsid=1 size=60
ts=1.4 gid=5 type=item_store key=c status=not_stored cmd=add ttl=0 clsid=1 cfd=24 size=1
ts=1.5 gid=6 type=item_get key=a%3Db status=found clsid=1 cfd=24 size=5
"""


def of(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def twr(layout: str, *more: int) -> bytes:
    return b"".join(struct.pack(layout, 5, *fields, *more) for fields in TWR)


def vscsi(version: int) -> bytes:
    if version == 1:
        return b"".join(
            struct.pack("<IIIHHQQ", 0, size, 1, 42, 1 << 8, block, 9) for block, size in VSCSI
        )
    return b"".join(
        struct.pack("<HHIIIQQQ", 42, 2 << 8, 0, size, 1, block, 9, 9) for block, size in VSCSI
    )


@pytest.mark.parametrize(
    ("name", "content", "texts", "keys", "sizes", "left_out"),
    [
        ("w.oracleGeneral", ORACLE, [str(BIG), "9"], [0, 0, 1], [300, 300, 5], 1),
        ("w.ORACLEGENERAL.bin", ORACLE, [str(BIG), "9"], [0, 0, 1], [300, 300, 5], 1),
        ("w.twr", twr("<IQII"), [str(BIG)], [0, 0], [300, 300], 1),
        ("w.twrns", twr("<IQIIH", 3), [str(BIG)], [0, 0], [300, 300], 1),
        ("w.vscsi", vscsi(1), [str(BIG), "7"], [0, 1, 0], [4_096, 512, 4_096], 0),
        ("w.vscsi", vscsi(2), [str(BIG), "7"], [0, 1, 0], [4_096, 512, 4_096], 0),
        ("cluster52", TWITTER, ["nz:u:ee", "a,b"], [0, 1, 0], [175, 9, 175], 1),
        ("watch.log", MEMCACHED, ["a=b"], [0, 0], [5, 5], 2),
        ("requests.txt", b"key,size\r\na,1\r\n", ["a"], [0], [1], 0),
    ],
)
def test_a_format_is_told_from_the_file_and_read(
    tmp_path: Path,
    name: str,
    content: bytes,
    texts: list[str],
    keys: list[int],
    sizes: list[int],
    left_out: int,
) -> None:
    for path in (
        of(tmp_path, name, content),
        of(tmp_path, f"{name}.zst", zstandard.compress(content)),
    ):
        found = traces.read(path)
        assert (found.texts, list(found.keys), list(found.sizes)) == (texts, keys, sizes)
        assert found.left_out == left_out


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        (
            "w.oracleGeneral",
            ORACLE[:-5],
            "record 4: it has 19 bytes, not 24: the file is incomplete",
        ),
        ("w.oracleGeneral", TWITTER * 24, "record 1: its next request is .*not a record of orac"),
        ("w.twr", twr("<IQII") + b"x", "record 4: it has 1 bytes, not 20"),
        ("w.twr", b"0,key,30,0,1,get,0\n_" * 3, "record 1: it has the operation 95"),
        ("w.twr", struct.pack("<IQII", 1, 2, 0, 0), "none of its 1 records have a size"),
        ("w.vscsi", ORACLE, "record 1: it has neither version 1"),
        ("w.vscsi", b"", "record 1: it has neither version 1"),
        ("w.twr", b"", "it has no requests"),
        ("c.csv", TWITTER + b"x,y\n", "line 5: it has fewer than 7 fields"),
        ("c.csv", TWITTER + b"x,k,1,1,1,get,0\n", "line 5: the time 'x' is not a number"),
        ("c.csv", TWITTER + b"1,k,1,-,1,get,0\n", "line 5: the size of the value '-'"),
        ("c.csv", TWITTER + b"1,k k,1,2,1,get,0\n", "line 5: the key 'k k' is not printable"),
        ("w.log", MEMCACHED + b"[skipped: 12]\n", "line 7: memcached skipped requests here"),
        (
            "w.log",
            MEMCACHED + b"ts=1 gid=3 type=item_get key=a\n",
            "line 7: .* is not a line of watch",
        ),
        ("w.log", MEMCACHED + b"what?\n", "line 7: 'what.' is not a line of watch"),
        ("w.bin", ORACLE, "neither its name nor its first line shows .* oracle-general, vscsi"),
    ],
)
def test_a_bad_file_says_where_and_what(
    tmp_path: Path, name: str, content: bytes, says: str
) -> None:
    with pytest.raises(TraceError, match=says):
        traces.read(of(tmp_path, name, content))


def test_the_format_that_is_asked_for_is_taken(tmp_path: Path) -> None:
    path = of(tmp_path, "requests.bin", ORACLE * 4_000)
    suite = own_trace.suite_of(path, [0.5], 1_000_000, "oracle-general")
    assert "without 4,000 requests that have no size" in suite.trace.what
    assert traces.read(path, suite.trace.format).distinct == 2
    with pytest.raises(CatalogueError, match=r"requests\.bin, record 18: it has the operation"):
        own_trace.suite_of(path, [0.5], 1_000_000, "twr")


def test_every_format_is_in_the_documents() -> None:
    text = (traces.FOLDER / "README.md").read_text("utf-8")
    for name in FORMATS:
        assert f"| `{name}` |" in text


def test_what_memcached_itself_writes_is_read(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = ["memcached", "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-u", "nobody"]
    try:
        process = subprocess.Popen(server)
    except FileNotFoundError:
        pytest.skip("memcached is not installed")
    try:
        with connected(port) as watch, connected(port) as client:
            asked(watch, b"watch fetchers mutations\r\n", b"OK")
            asked(client, b"get 50%\r\n", b"END")
            asked(client, b"set 50% 0 60 5\r\nhello\r\n", b"STORED")
            asked(client, b"get 50%\r\n", b"END")
            asked(client, b"add 50% 0 0 1\r\nx\r\n", b"NOT_STORED")
            asked(client, b"set last 0 0 2\r\nhi\r\n", b"STORED")
            log = b""
            while b"key=last" not in log or not log.endswith(b"\n"):
                log += watch.recv(65_536)
    finally:
        process.terminate()
        process.wait()
    found = traces.read(of(tmp_path, "watch.log", log))
    assert (found.texts, list(found.sizes)) == (["50%", "last"], [5, 5, 5, 2])


def connected(port: int) -> socket.socket:
    for _ in range(500):
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=20)
        except ConnectionRefusedError:
            time.sleep(0.01)
    raise AssertionError("memcached does not listen")


def asked(connection: socket.socket, request: bytes, end: bytes) -> None:
    connection.sendall(request)
    answer = b""
    while end not in answer:
        answer += connection.recv(4_096)


def test_the_command_replays_a_trace_of_another_format(tmp_path: Path) -> None:
    records = [
        struct.pack("<IQIq", number, number % 100 if number % 3 else number % 10, 4_096, -1)
        for number in range(3_000)
    ]
    path = of(tmp_path, "shop.oracleGeneral.zst", zstandard.compress(b"".join(records)))
    arguments = ["run", "--trace", str(path), "--capacity", "0.8", "--quick"]
    arguments += ["--records", str(tmp_path / "records"), "--contestant", "tuckbox"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert "3,000 requests" in " ".join(done.output.split())
