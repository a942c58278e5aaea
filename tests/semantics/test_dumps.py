"""Entries leave a cache in a file, and enter any other one; a damaged file changes nothing."""

from __future__ import annotations

import os
import signal
import stat
import time
import zlib
from collections import Counter
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

import pytest

from tuckbox import Cache, dumps, memory
from tuckbox.brief import WouldBlock, briefly
from tuckbox.errors import (
    CacheClosed,
    CacheReadOnly,
    DumpInvalid,
    EntryRefused,
    InvalidArgument,
)
from tuckbox.memory.keys import varint
from tuckbox.remote.envelope import Envelope, pack, unpack
from tuckbox.results import Loaded

if TYPE_CHECKING:
    from collections.abc import Iterator

Opener = Callable[..., Any]

ENTRIES: dict[Any, Any] = {
    "text": "value",
    b"bytes": b"value" * 20,
    7: {"a": [1, 2.5, None]},
    ("page", ("x", -3)): 2**70,
    "number": 41,
    "small": -1,
    "large": bytes(range(256)) * 1500,
    "lone surrogate \ud800": "\udfff",
    "": "",
}


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "app.dump"
    assert not list(tmp_path.glob(".tuckbox-dump-*")), "a dump left its temporary file"


@pytest.fixture(params=[Cache, memory.Cache], ids=["shared", "memory"])
def source(request: pytest.FixtureRequest) -> Opener:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(params=[Cache, memory.Cache], ids=["into shared", "into memory"])
def target(request: pytest.FixtureRequest) -> Opener:
    return request.param  # type: ignore[no-any-return]


def test_entries_come_back_as_they_were(source: Opener, target: Opener, file: Path) -> None:
    with source() as old, target() as new:
        old.set_many(ENTRIES)
        old.set("tagged", 1, ttl=1000, tags=["b", "a"], stale=500)
        old.get_or_set("made", lambda: 2)
        old.set("expired", 3, ttl=0)
        old.set("evicted", 4, tags=["c"])
        old.evict(tag="c")
        assert old.dump(file) == len(ENTRIES) + 2
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert new.load(file) == Loaded(len(ENTRIES) + 2, 0, 0, 0)
        assert dict(new.items()) == {**ENTRIES, "tagged": 1, "made": 2}
        assert [type(new[key]) for key in ENTRIES] == [type(ENTRIES[key]) for key in ENTRIES]
        before, after = old.get_entry("tagged"), new.get_entry("tagged")
        assert abs(before.expiry - after.expiry) < 5
        assert after.tags == ("a", "b")
        made = old.get_entry("made").made_s, new.get_entry("made").made_s
        assert made[0] == pytest.approx(made[1], abs=2e-6)
        assert new.incr("number") == 42
        new.evict(tag="a")
        assert "tagged" not in new
        # What `new` dumps is a dump as well.
        new.dump(file)
        old.clear()
        assert old.load(file).stored == len(old) == len(ENTRIES) + 1


def test_what_expires_meanwhile_is_left_out(file: Path) -> None:
    with Cache() as old, Cache() as new:
        old.set("soon", 1, ttl=1.5)
        old.set("stale soon", 2, ttl=1.5, stale=1000)
        old.set("later", 3, ttl=1000)
        assert old.dump(file) == 3
        time.sleep(1.6)
        assert new.load(file) == Loaded(stored=2, present=0, expired=1, refused=0)
        assert list(new) == ["later"]
        entry = new.get_entry("stale soon", stale=True)
        assert (entry.value, entry.stale) == (2, True)


def test_values_that_are_there_can_be_kept(source: Opener, target: Opener, file: Path) -> None:
    with source() as old, target() as new:
        old.set_many({"a": "old", "b": "old"})
        old.dump(file)
        new.set("a", "new")
        assert new.load(file, replace=False) == Loaded(1, 1, 0, 0)
        assert dict(new) == {"a": "new", "b": "old"}
        assert new.load(file) == Loaded(2, 0, 0, 0)
        assert dict(new) == {"a": "old", "b": "old"}


def test_namespaces(source: Opener, target: Opener, file: Path) -> None:
    with source() as old, target() as new:
        blog = old.namespace("blog")
        old["k"], blog["k"], blog.namespace("é")["k"] = 1, 2, 3
        blog.namespace("cleared")["k"] = 4
        blog.namespace("cleared").clear()
        old.namespace("other")["k"] = 5
        assert old.dump(file) == 4
        new.namespace("blog")["before"] = 0
        new.namespace("blog").clear()
        assert new.load(file).stored == 4
        parts = [new, new.namespace("blog"), new.namespace("blog").namespace("é")]
        assert [dict(part) for part in parts] == [{"k": 1}, {"k": 2}, {"k": 3}]
        assert dict(new.namespace("other")) == {"k": 5}
        assert not new.namespace("blog").namespace("cleared")
        # Of a namespace, its own entries, into any other.
        assert blog.dump(file) == 2
        copy = new.namespace("a").namespace("b")
        assert copy.load(file).stored == 2
        assert [dict(copy), dict(copy.namespace("é"))] == [{"k": 2}, {"k": 3}]
        new.clear()
        assert new.load(file).stored == 2
        assert [dict(new), dict(new.namespace("é"))] == [{"k": 2}, {"k": 3}]


# --- Values that are bound to their entry -------------------------------------------------------


def test_signed_pickles_are_signed_again_for_their_new_entry(
    source: Opener, target: Opener, file: Path
) -> None:
    signed: dict[str, Any] = {"pickle": "signed", "secret": "the secret"}
    with source(**signed) as old, target(**signed) as new:
        old["k"], old.namespace("n")["k"] = range(3), range(4)
        old.dump(file)
        assert new.load(file) == Loaded(2, 0, 0, 0)
        assert (new["k"], new.namespace("n")["k"]) == (range(3), range(4))
    for others in ({}, {"pickle": "signed", "secret": "another"}, {"pickle": "private"}):
        with target(**others) as new:
            outcome = new.load(file)
            assert outcome[:4] == (0, 0, 0, 2)
            assert [entries for entries, _ in outcome.refusals] == [2]
            assert not new
    # For another key it is not valid, whoever has the secret.
    (first, _), head = _entries(file)
    _write(file, head, [first._replace(key=b"other")])
    with target(**signed) as new:
        assert new.load(file)[:4] == (0, 0, 0, 1)


@pytest.mark.parametrize("compress", [None, "1 kB"])
def test_compressed_pickles_are_signed_again(file: Path, compress: Any) -> None:
    signed: dict[str, Any] = {"pickle": "signed", "secret": "s"}
    value = [range(n) for n in range(1000)]
    with Cache(**signed, compress="1 kB", compressor="lz4") as old:
        old["k"] = value
        old.dump(file)
        with Cache(**signed, compress=compress, compressor="lz4") as new:
            assert new.load(file).stored == 1
            assert new["k"] == value
            sizes = old.stats().entry_bytes, new.stats().entry_bytes
            assert (sizes[1] < 2 * sizes[0]) is (compress is not None)
        with Cache() as new:
            assert new.load(file).refused == 1


def test_its_own_signed_pickles_need_no_secret(path: str, file: Path) -> None:
    with Cache(path, pickle="signed", secret="s") as cache:
        cache["k"] = range(3)
        with Cache(path) as plain:
            plain.dump(file)
            plain.clear()
            assert plain.load(file).stored == 1
        assert cache["k"] == range(3)


class _Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("exploded"),)


def test_pickles_without_signature_need_a_private_file(
    target: Opener, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    for compress in (None, 1):
        with Cache(pickle="private", compress=compress, compressor="lz4") as old:
            old["k"] = [_Bomb()] * 100
            old.dump(file)
        for others in ({}, {"pickle": "signed", "secret": "s"}):
            with target(**others) as new:
                assert new.load(file)[:4] == (0, 0, 0, 1)
        with target(pickle="private") as new:
            assert new.load(file).stored == 1
            new.clear()
            file.chmod(0o620)
            outcome = new.load(file)
            assert outcome[:4] == (0, 0, 0, 1)
            assert "from a file that only you can write" in outcome.refusals[0].reason
            file.unlink()
    assert not Path("exploded").exists()


def test_loading_decodes_no_value(file: Path) -> None:
    class Codec:
        name = "never"

        def encode(self, value: Any) -> bytes:
            return b"x"

        def decode(self, content: bytes) -> Any:
            raise AssertionError("it was decoded")

    with Cache(codec=Codec()) as old, Cache() as new:
        old["k"] = 1.5
        old.dump(file)
        assert new.load(file).stored == 1
        with pytest.raises(EntryRefused):
            new.get("k")


# --- Files that are no dumps --------------------------------------------------------------------


def _entries(file: Path) -> tuple[list[Envelope], bytes]:
    content = file.read_bytes()
    head, at, found = content[: dumps._HEAD.size], dumps._HEAD.size, []
    while length := int.from_bytes(content[at : at + 8], "little"):
        envelope = unpack(content[at + 8 : at + 8 + length], None)
        assert envelope is not None
        found.append(envelope)
        at += 8 + length
    return found, head


def _write(file: Path, head: bytes, envelopes: list[Envelope]) -> None:
    """As `dump`, whatever the entries are."""
    parts = [head]
    for packed in map(pack, envelopes):
        parts += [len(packed).to_bytes(8, "little"), packed]
    content = b"".join([*parts, bytes(8)])
    file.write_bytes(content + dumps._END.pack(len(envelopes), zlib.crc32(content)))


def demand_refusal(cache: Any, file: Path) -> None:
    before = dict(cache)
    with pytest.raises(DumpInvalid, match="nothing was changed"):
        cache.load(file)
    assert dict(cache) == before


@pytest.fixture
def small(file: Path) -> Path:
    with Cache() as old:
        old.set("a", 1, ttl=1000, tags=["t"], stale=3)
        old.namespace("n")["b"] = [2]
        old.dump(file)
    return file


def test_every_damaged_byte_is_noticed(target: Opener, small: Path) -> None:
    content = small.read_bytes()
    with target() as new:
        new["a"] = "kept"
        for at in range(len(content)):
            for change in (1, 0x80, 0xFF):
                damaged = bytearray(content)
                damaged[at] ^= change
                small.write_bytes(damaged)
                demand_refusal(new, small)


def test_every_cut_is_noticed(target: Opener, small: Path) -> None:
    content = small.read_bytes()
    with target() as new:
        new["a"] = "kept"
        for length in range(len(content)):
            small.write_bytes(content[:length])
            demand_refusal(new, small)
        small.write_bytes(content + b"\0")
        demand_refusal(new, small)
        small.write_bytes(content)
        assert new.load(small).stored == 2


def test_foreign_files_are_refused(path: str, small: Path) -> None:
    found, head = _entries(small)
    first, second = sorted(found, key=lambda envelope: envelope.key)
    envelopes = {
        "undecodable key": first._replace(key=b"\xffi" + bytes(70_000)),
        "key with unknown code": first._replace(key=b"\xff?"),
        "key that no encoder makes": first._replace(key=b"\xffi\0\0"),
        "cut namespace": first._replace(key=b"\xffn\x04blog"),
        "namespace without name": first._replace(key=b"\xffn\0" + bytes(8) + b"k"),
        "namespace that is no text": first._replace(key=b"\xffn\x01\xff" + bytes(8) + b"k"),
        "long number": first._replace(key=b"\xffn" + b"\x80" * 60_000),
        "deep key": first._replace(key=b"\xfft" + (varint(60_000) + b"\xfft") * 10_000),
        "no value": first._replace(value=b""),
        "unknown code": first._replace(value=b"\x80"),
        "lease": first._replace(lease=(1, 2)),
        "unsorted tags": first._replace(tags=("b", "a")),
        "long tag": first._replace(tags=("a" * 256,)),
        "many tags": first._replace(tags=tuple(f"{n:02}" for n in range(33))),
    }
    with Cache(path) as new:
        for what, envelope in envelopes.items():
            _write(small, head, [second, envelope])
            with pytest.raises(DumpInvalid):
                new.load(small)
            assert not len(new), what
        _write(small, head[:-1] + b"\1", [first])
        demand_refusal(new, small)  # It is in no namespace.
        _write(small, head[:7] + b"\2" + head[8:], [first])
        with pytest.raises(DumpInvalid, match="has layout 2 of dumps"):
            new.load(small)
        for content in (b"", b"text", b"\0" * 1000, Path(path).read_bytes()):
            small.write_bytes(content)
            with pytest.raises(DumpInvalid, match="is not a dump of Tuckbox"):
                new.load(small)
        small.unlink()
        with pytest.raises(FileNotFoundError):
            new.load(small)
        with pytest.raises(IsADirectoryError):
            new.load(small.parent)
        os.mkfifo(small)
        with pytest.raises(DumpInvalid, match="is not a regular file"):
            new.load(small)


def test_values_that_no_encoder_makes_harm_only_their_reader(target: Opener, small: Path) -> None:
    (first, _), head = _entries(small)
    first = first._replace(tags=(), expiry_us=2**64 - 1, stale_us=2**64 - 1, made_us=2**64 - 1)
    values = [b"\x04", b"\x04" + b"\xff" * 9 + b"\x7f", b"\x07\xff", b"\x19", b"\x19\x02\x17\xff"]
    _write(small, head, [first._replace(key=b"%d" % n, value=v) for n, v in enumerate(values)])
    with target(pickle="signed", secret="s") as new:
        outcome = new.load(small)
        assert outcome.stored + outcome.refused == len(values)
        for key in list(new):
            with suppress(Exception):
                new.get(key)
        new["k"] = 1
        assert new["k"] == 1
        assert new.check().is_sound


def test_what_is_too_large_is_refused(file: Path) -> None:
    with Cache() as old:
        old.set_many({"large": bytes(200_000), "small": 1, "k" * 65_000: 2})
        old.dump(file)
    for kind in (Cache, memory.Cache):
        with kind(size="128 kB") as new:
            outcome = new.namespace("n" * 255).namespace("m" * 255).namespace("o" * 255).load(file)
            assert outcome[:4] == (1, 0, 0, 2)
            reasons = sorted(reason for _, reason in outcome.refusals)
            assert [reason.split(" is ")[0] for reason in reasons] == ["its key", "its value"]


# --- Pins and coordination ----------------------------------------------------------------------

FLOOD = 6_000


def flood(cache: Any) -> None:
    """Store more than fits."""
    for number in range(FLOOD):
        cache.set(("flood", number), "x" * 200)
    assert cache.stats().evictions > 0


def test_a_pinned_entry_is_loaded_as_one(source: Opener, target: Opener, file: Path) -> None:
    with source(size="512 KiB") as old, target(size="512 KiB") as new:
        old.set("pinned", 1, ttl=1000, stale=5, tags=["t"], pinned=True)
        old.namespace("n").set("pinned", "x" * 100, pinned=True)
        old.set("other", 2)
        old.dump(file)
        assert new.load(file) == Loaded(3, 0, 0, 0)
        assert [new.get_entry(key).pinned for key in ("pinned", "other")] == [True, False]
        assert new.get_entry("pinned").tags == ("t",)
        flood(new)
        assert (new["pinned"], new.namespace("n")["pinned"]) == (1, "x" * 100)


def test_a_loaded_queue_is_not_evicted(source: Opener, target: Opener, file: Path) -> None:
    with source(size="512 KiB") as old, target(size="512 KiB") as new:
        for number in range(20):
            old.queue("jobs").push(number)
        assert old.rate_limit("mail", 1, 3600).try_acquire()
        old.dump(file)
        new.load(file)
        flood(new)
        assert list(new.queue("jobs")) == [*range(20)]
        assert not new.rate_limit("mail", 1, 3600).try_acquire()


def test_what_is_held_is_not_dumped(source: Opener, target: Opener, file: Path) -> None:
    with source() as old, target() as new:
        old["k"] = 1
        for part in (old, old.namespace("n")):
            assert part.lock("report").acquire(0)
            assert part.semaphore("downloads", 1).acquire(0)
        assert old.dump(file) == 1
        assert new.load(file) == Loaded(1, 0, 0, 0)
        for part in (new, new.namespace("n")):
            assert part.lock("report").acquire(0)
            assert part.semaphore("downloads", 1).acquire(0)


def test_a_load_takes_no_lock_from_its_holder(source: Opener, file: Path) -> None:
    with source() as cache:
        with cache.lock("report"):
            cache.dump(file)
        lock = cache.lock("report")
        assert lock.acquire(0)
        fence = lock.fence
        cache.load(file)
        assert lock.owned()
        lock.release()
        with cache.lock("report") as later:
            assert later.fence > fence


def test_leases_in_a_foreign_dump_are_refused(target: Opener, small: Path) -> None:
    (first, _), head = _entries(small)
    with memory.Cache() as old:
        assert old.lock("report").acquire(0)
        held = [key for key, *_ in old._iter_encoded()]
    own = [first._replace(key=key, value=b"\xc0", tags=()) for key in held]
    assert len(own) == 2, "the lease, and the counter of fences"
    _write(small, head, [first, *own])
    with target() as new:
        outcome = new.load(small)
        assert outcome[:4] == (1, 0, 0, 2)
        ((entries, reason),) = outcome.refusals
        assert (entries, reason[:10]) == (2, "it is a le")
        assert new.lock("report").acquire(0)


# --- The rest -----------------------------------------------------------------------------------


def test_a_closed_or_read_only_cache(path: str, file: Path) -> None:
    with Cache(path) as cache:
        cache["k"] = 1
    with Cache(path, read_only=True) as reader:
        assert reader.dump(file) == 1
        with pytest.raises(CacheReadOnly):
            reader.load(file)
    for operation in (reader.dump, reader.load, reader.copy_to, cache.dump, cache.copy_to):
        with pytest.raises(CacheClosed):
            operation(file)


def test_a_dump_never_replaces_its_own_cache(path: str) -> None:
    with Cache(path) as cache, pytest.raises(InvalidArgument, match="own file"):
        cache.dump(path)


def test_a_folder_that_is_not_there_is_named(source: Opener, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("")
    with source() as cache:
        with pytest.raises(FileNotFoundError, match="does not exist; create it") as raised:
            cache.dump(tmp_path / "no" / "such" / "app.dump")
        assert raised.value.filename == str(tmp_path / "no" / "such" / "app.dump")
        with pytest.raises(NotADirectoryError, match="is a file; give another path"):
            cache.dump(tmp_path / "text" / "app.dump")


def test_a_link_is_replaced_not_followed(tmp_path: Path, file: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    file.symlink_to(victim)
    with Cache() as cache:
        cache.dump(file)
    assert victim.read_text() == "kept"
    assert not file.is_symlink()


def test_a_dump_that_cannot_be_written_leaves_the_former_one(source: Opener, small: Path) -> None:
    content = small.read_bytes()
    with source() as cache:
        cache["k"] = 1
        with pytest.raises(FileNotFoundError):
            cache.dump(small.parent / "missing" / "app.dump")
        (small.parent / "folder").mkdir()
        with pytest.raises(IsADirectoryError):
            cache.dump(small.parent / "folder")
        cache.close()
        with pytest.raises(CacheClosed):
            cache.dump(small)
    assert small.read_bytes() == content


def test_event_loops_are_not_held(source: Opener, file: Path) -> None:
    with source() as cache:
        for operation in (cache.dump, cache.load):
            with pytest.raises(WouldBlock):
                briefly(0.0, operation, file)
    assert not file.exists()


def write_for_ever(path: str, seed: int) -> None:
    """Change entries, and keep each one's value telling its key."""
    cache = Cache(path)
    for number in range(seed, 10**9):
        key = f"moving {number % 2000}"
        cache.set(key, [key, number])
        cache.delete(f"moving {(number * 7) % 2000}")
        if number % 50 == 0:
            cache.set(("grows", number % 100_000), bytes(200))


@contextmanager
def writers(cache: Cache, path: str) -> Iterator[None]:
    """Processes that write to the cache at the path."""
    pids = []
    try:
        for seed in range(2):
            pid = os.fork()
            if pid == 0:
                with suppress(BaseException):
                    write_for_ever(path, seed * 1000)
                os._exit(1)
            pids.append(pid)
        while ("grows", 0) not in cache or ("grows", 1000) not in cache:
            time.sleep(0.001)
        yield
        assert [os.waitpid(pid, os.WNOHANG) for pid in pids] == [(0, 0)] * 2, "a writer failed"
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def demand_snapshot(found: dict[Any, Any]) -> None:
    """All that was there all the time, and what writers had stored at some moment."""
    assert [found.get(("still", number)) for number in range(3000)] == list(range(3000))
    moving = [key for key in found if isinstance(key, str)]
    assert all(found[key][0] == key for key in moving)
    assert moving


def test_a_dump_of_a_cache_in_use(path: str, file: Path) -> None:
    with Cache(path, size="16 MB", lock_timeout=30) as cache:
        cache.set_many({("still", number): number for number in range(3000)})
        with writers(cache, path):
            for _ in range(8):
                dumped = cache.dump(file)
                envelopes, _ = _entries(file)
                keys = Counter(envelope.key for envelope in envelopes)
                assert len(keys) == dumped == sum(keys.values())
                with Cache(size="16 MB") as new:
                    assert new.load(file).stored == dumped
                    demand_snapshot(dict(new))


def test_a_copy_of_a_cache_in_use(path: str, tmp_path: Path) -> None:
    with Cache(path, size="16 MB", lock_timeout=30) as cache:
        cache.set_many({("still", number): number for number in range(3000)})
        with writers(cache, path):
            for number in range(8):
                copy_path = tmp_path / f"copy{number}.tuck"
                cache.copy_to(copy_path)
                with Cache(copy_path) as copy:
                    demand_snapshot(dict(copy))
                    assert copy.check().is_sound


def test_a_resize_does_not_end_a_dump(
    path: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Cache(path, size="8 MB") as cache, Cache(path) as other:
        cache.set_many({number: number for number in range(1000)})
        sizes = iter([9_000_000, 10_000_000])

        def packed(envelope: Envelope) -> bytes:
            # In the middle of the first two attempts.
            if envelope.key == b"\xffi\x07" and (size := next(sizes, None)) is not None:
                other.resize(size)
            return pack(envelope)

        monkeypatch.setattr(dumps, "pack", packed)
        assert cache.dump(file) == 1000
        assert next(sizes, None) is None


def dump_and_die(cache: Cache, target: Path, after: int) -> None:
    """Dump, and be killed at this entry."""
    numbers = count(1)

    def packed(envelope: Envelope) -> bytes:
        if next(numbers) == after:
            os.kill(os.getpid(), signal.SIGKILL)
        return pack(envelope)

    dumps.pack = packed  # type: ignore[attr-defined]
    cache.dump(target)


def test_a_killed_dump_leaves_the_former_one(path: str, tmp_path: Path) -> None:
    target = tmp_path / "app.dump"
    with Cache(path) as cache:
        cache.set_many({number: bytes(1000) for number in range(1000)})
        cache.dump(target)
        content = target.read_bytes()
        cache["more"] = 1
        for after in (1, 500, 1001):
            pid = os.fork()
            if pid == 0:
                with suppress(BaseException):
                    dump_and_die(cache, target, after)
                os._exit(1)
            assert os.waitpid(pid, 0)[1] == signal.SIGKILL
            assert target.read_bytes() == content
        assert cache.dump(target) == 1001
