"""T-C4: what is not a cache, or not a safe one, is refused with an exact sentence and left alone.

Each case makes something at a path, opens the path for writing and read-only, and compares the
whole message; then every byte, name, mode and time of what was there.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import sqlite3
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import pytest

import tuckbox
from reliability.actors import demand
from tuckbox import Cache

ENTRIES = 20
STRANGER = 61009
FORMAT_VERSION_AT, BYTE_ORDER_AT, HASH_KEY_AT, HEADER_BYTES = 8, 16, 48, 4096

LEFT = "it was not changed"
NOT_OURS = LEFT + ": choose another path, or remove the file if it is not needed"
OTHER_FORMAT = LEFT + ": use another path, or remove the file to start with an empty cache"
DAMAGED = LEFT + ": remove the file to start with an empty cache"
SHORT = "{path} is not a Tuckbox cache (it is shorter than a cache header); " + NOT_OURS
FOREIGN = "{path} is not a Tuckbox cache (its magic bytes are wrong); " + NOT_OURS
UNSAFE = "{path} is not safe to use: "
NOT_A_FILE = "{path} is %s, not a cache file; give the path of a file"
OWN_FOLDER = "or use a new directory: mkdir -m 700 {folder}/tuckbox"


@dataclass(frozen=True)
class Wrong:
    """Something that is no cache."""

    name: str
    make: Callable[[Path], Any]
    error: str
    message: str
    at: str = "cache.tuck"
    options: tuple[tuple[str, Any], ...] = ()
    """How it is opened; without any, for writing and read-only."""
    reading: str = ""
    """The message to who opens it read-only, if it is another one."""


def cache(path: Path, change: dict[int, bytes] | None = None, length: int | None = None) -> None:
    with Cache(path, size="64 KiB") as made:
        for number in range(ENTRIES):
            made[number] = f"value {number}"
    content = bytearray(path.read_bytes())
    for at, piece in (change or {}).items():
        content[at : at + len(piece)] = piece
    path.write_bytes(content[:length])


def database(path: Path) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("create table precious (id integer primary key, value text)")
        connection.executemany("insert into precious (value) values (?)", [("x" * 100,)] * 200)
    connection.close()


def bound_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.fspath(path))


def link_to(make: Callable[[Path], Any]) -> Callable[[Path], None]:
    def made(path: Path) -> None:
        target = path.with_name("target")
        make(target)
        path.symlink_to(target)

    return made


def hard_link_to(make: Callable[[Path], Any]) -> Callable[[Path], None]:
    def made(path: Path) -> None:
        make(path.with_name("target"))
        os.link(path.with_name("target"), path)

    return made


def with_mode(mode: int) -> Callable[[Path], None]:
    def made(path: Path) -> None:
        cache(path)
        path.chmod(mode)

    return made


def in_folder(mode: int, owner: int = -1, group: int = -1) -> Callable[[Path], None]:
    def made(path: Path) -> None:
        cache(path)
        path.parent.chmod(mode)
        if (owner, group) != (-1, -1):
            demand("to give files away", is_there=os.geteuid() == 0)
            os.chown(path.parent, owner, group)

    return made


def of_a_stranger(path: Path) -> None:
    demand("to give files away", is_there=os.geteuid() == 0)
    cache(path)
    os.chown(path, STRANGER, STRANGER)


def behind_a_strangers_link(path: Path) -> None:
    demand("to give files away", is_there=os.geteuid() == 0)
    real = path.parent.with_name("real")
    real.mkdir()
    cache(real / path.name)
    path.parent.symlink_to("real")
    os.chown(path.parent, STRANGER, STRANGER, follow_symlinks=False)


def random_bytes(path: Path) -> None:
    path.write_bytes(random.Random(1).randbytes(100_000))


def text(content: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content) and None


def nothing(path: Path) -> None:
    pass


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def dangling(path: Path) -> None:
    path.symlink_to("nothing")


def one_below(path: Path) -> None:
    path.parent.write_text("content")


CASES = [
    Wrong("empty", text(b""), "NotACache", SHORT),
    Wrong("one byte", text(b"x"), "NotACache", SHORT),
    Wrong("a byte less than a header", text(bytes(HEADER_BYTES - 1)), "NotACache", SHORT),
    Wrong("a header of zeros", text(bytes(HEADER_BYTES)), "NotACache", FOREIGN),
    Wrong("zeros", text(bytes(1 << 20)), "NotACache", FOREIGN),
    Wrong("ones", text(b"\xff" * 8192), "NotACache", FOREIGN),
    Wrong("short text", text(b"precious\n"), "NotACache", SHORT),
    Wrong("long text", text(b"precious\n" * 10_000), "NotACache", FOREIGN),
    Wrong("random bytes", random_bytes, "NotACache", FOREIGN),
    Wrong("a SQLite file", database, "NotACache", FOREIGN),
    Wrong("half the magic", text(b"Tuck" + bytes(8188)), "NotACache", FOREIGN),
    Wrong(
        "the magic alone",
        text(b"Tuckbox\x1a" + bytes(8184)),
        "VersionMismatch",
        "{path} has format unknown (opposite byte order), but this version of Tuckbox reads "
        "format 1 (this machine's byte order); " + OTHER_FORMAT,
    ),
    Wrong(
        "the other byte order",
        lambda path: cache(path, {BYTE_ORDER_AT: b"\1\2\3\4\5\6\7\10"}),
        "VersionMismatch",
        "{path} has format unknown (opposite byte order), but this version of Tuckbox reads "
        "format 1 (this machine's byte order); " + OTHER_FORMAT,
    ),
    Wrong(
        "an older version",
        lambda path: cache(path, {FORMAT_VERSION_AT: bytes(8)}),
        "VersionMismatch",
        "{path} has format 0, but this version of Tuckbox reads format 1; " + OTHER_FORMAT,
    ),
    Wrong(
        "a newer version",
        lambda path: cache(path, {FORMAT_VERSION_AT: b"\x63"}),
        "VersionMismatch",
        "{path} has format 99, but this version of Tuckbox reads format 1; " + OTHER_FORMAT,
    ),
    Wrong(
        "a damaged header",
        lambda path: cache(path, {HASH_KEY_AT: bytes(16)}),
        "CacheCorrupt",
        "{path} is damaged (the header's checksum does not match); " + DAMAGED,
    ),
    Wrong(
        "a header alone",
        lambda path: cache(path, length=HEADER_BYTES),
        "CacheCorrupt",
        "{path} is damaged (the file was truncated); " + DAMAGED,
    ),
    Wrong(
        "cut short",
        lambda path: cache(path, length=8192),
        "CacheCorrupt",
        "{path} is damaged (the file was truncated); " + DAMAGED,
    ),
    Wrong("a directory", Path.mkdir, "NotAFile", NOT_A_FILE % "a directory"),
    Wrong("a named pipe", os.mkfifo, "NotAFile", NOT_A_FILE % "a named pipe"),
    Wrong("a socket", bound_socket, "NotAFile", NOT_A_FILE % "a socket"),
    *(
        Wrong(name, nothing, "NotAFile", NOT_A_FILE % "a device", at=name)
        for name in ("/dev/zero", "/dev/null", "/dev/full", "/dev/tty")
    ),
    Wrong("the root", nothing, "NotAFile", NOT_A_FILE % "a directory", at="/"),
    Wrong("a link to a cache", link_to(cache), "NotAFile", NOT_A_FILE % "a symbolic link"),
    Wrong("a link to a text", link_to(text(b"x")), "NotAFile", NOT_A_FILE % "a symbolic link"),
    Wrong("a link to a directory", link_to(Path.mkdir), "NotAFile", NOT_A_FILE % "a symbolic link"),
    Wrong("a link to nothing", dangling, "NotAFile", NOT_A_FILE % "a symbolic link"),
    Wrong("a link to itself", loop, "NotAFile", NOT_A_FILE % "a symbolic link"),
    *(
        Wrong(
            f"a hard link to {what}",
            hard_link_to(make),
            "UnsafeFile",
            UNSAFE + "it has 2 hard links, so it may be another file of this user; remove the "
            "wrong link; to list the links, run: find {folder} -xdev -samefile {path}",
        )
        for what, make in (("a cache", cache), ("a text", text(b"precious\n")))
    ),
    *(
        Wrong(
            f"mode {mode:o}",
            with_mode(mode),
            "UnsafeFile",
            UNSAFE + f"its mode {mode:04o} lets every user write to it; run: chmod o-w {{path}}",
        )
        for mode in (0o602, 0o606, 0o646)
    ),
    *(
        Wrong(
            f"mode {mode:o}",
            with_mode(mode),
            "UnsafeFile",
            UNSAFE
            + f"its mode {mode:04o} lets group {{gid}} write to it; run: chmod go-w {{path}}, "
            "or pass group={gid} if its members should share it",
        )
        for mode in (0o660, 0o620, 0o666)
    ),
    Wrong(
        "not shared with the group",
        cache,
        "UnsafeFile",
        UNSAFE + "it is not shared with group 4321: it has group {gid} and mode 0600; "
        "run: chgrp 4321 {path} && chmod 660 {path}",
        options=(("group", 4321),),
    ),
    Wrong(
        "a stranger's cache",
        of_a_stranger,
        "UnsafeFile",
        UNSAFE + f"it belongs to user {STRANGER}, but this process runs as user {{uid}}; "
        "open it as that user or with read_only, or choose another path",
        reading=UNSAFE + f"it belongs to user {STRANGER}, but this process runs as user {{uid}}; "
        "move it to a directory of that user, or choose another path",
    ),
    Wrong(
        "in a stranger's directory",
        in_folder(0o755, owner=STRANGER),
        "UnsafeFile",
        UNSAFE + f"its directory {{folder}} belongs to user {STRANGER}, who can replace it; "
        "choose a directory that belongs to you or to root",
    ),
    Wrong(
        "behind a stranger's link",
        behind_a_strangers_link,
        "UnsafeFile",
        UNSAFE + f"the symbolic link box in its path belongs to user {STRANGER}; "
        "use a path without that link",
    ),
    Wrong(
        "in everybody's directory",
        in_folder(0o777),
        "UnsafeFile",
        UNSAFE + "the mode 0777 of its directory {folder} lets every user replace it; "
        "run: chmod go-w {folder}, " + OWN_FOLDER,
    ),
    Wrong(
        "in a group's directory",
        in_folder(0o775, group=4321),
        "UnsafeFile",
        UNSAFE + "the mode 0775 of its directory {folder} lets group 4321 replace it; "
        "run: chmod go-w {folder}, " + OWN_FOLDER,
    ),
    Wrong(
        "in no directory",
        lambda path: path.parent.rmdir(),
        "DirectoryMissing",
        "cannot open {path}: the directory {folder} does not exist; create it first: "
        "mkdir -m 700 {folder}",
    ),
    Wrong(
        "in a directory with a space",
        nothing,
        "DirectoryMissing",
        "cannot open {path}: the directory {folder} does not exist; create it first: "
        "mkdir -m 700 '{folder}'",
        at="a b/cache.tuck",
    ),
    Wrong(
        "below a file",
        one_below,
        "CacheOpenError",
        "cannot open {path}: Not a directory (os error 20)",
        at="file/cache.tuck",
    ),
    Wrong(
        "a name too long",
        nothing,
        "CacheOpenError",
        "cannot open {path}: File name too long (os error 36)",
        at="x" * 300,
    ),
    Wrong(
        "a name with NUL",
        nothing,
        "CacheOpenError",
        "cannot open {path}: the path contains a NUL byte",
        at="a\0b",
    ),
    Wrong(
        "nothing to read",
        nothing,
        "FileMissing",
        "{path} does not exist, and read_only does not create it; open it without read_only first",
        options=(("read_only", True),),
    ),
]


def fingerprint(place: Path) -> dict[str, Any]:
    """All that is below a directory, and the directory."""
    found: dict[str, Any] = {}
    for path in (place, *sorted(place.rglob("*"))):
        data = path.lstat()
        content: Any = None
        if stat.S_ISREG(data.st_mode):
            content = path.read_bytes()
        elif stat.S_ISLNK(data.st_mode):
            content = os.readlink(path)
        numbers = (data.st_ino, data.st_mode, data.st_nlink, data.st_uid, data.st_gid)
        found[str(path)] = (*numbers, data.st_size, data.st_mtime_ns, content)
    return found


def verdict(case: Wrong, place: Path, opener: Callable[..., Any]) -> str | None:
    """What is wrong with how it was refused, if anything."""
    box = place / "box"
    if case.make is not behind_a_strangers_link:
        box.mkdir(mode=0o700)
    path = box / case.at
    case.make(path)
    before = fingerprint(place)
    names = {"path": path, "folder": path.parent, "uid": os.geteuid(), "gid": os.getegid()}
    modes = [dict(case.options)] if case.options else [{}, {"read_only": True}]
    for mode in modes:
        reading = case.reading if "read_only" in mode else ""
        sentence = (reading or case.message).format(**names)
        try:
            opened = opener(path, **mode)
        except tuckbox.errors.CacheOpenError as error:
            got, message = type(error).__name__, str(error)
            if (got, message, error.filename) != (case.error, sentence, str(path)):
                return f"{case.name} {mode}: got {got}: {message}\n  instead of {sentence}"
        else:
            opened.close()
            return f"{case.name} {mode}: it was opened"
    if fingerprint(place) != before:
        return f"{case.name}: it was changed"
    return None


@pytest.mark.family("T-C4")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_is_refused_exactly_and_left_alone(tmp_path: Path, trials: Any, case: Wrong) -> None:
    failure = verdict(case, tmp_path, Cache)
    assert failure is None, failure
    trials.add(1, "cases")


@pytest.mark.family("T-C4")
def test_what_is_right_is_not_refused(tmp_path: Path, trials: Any) -> None:
    """The same files, made well, open and are full of hits: who refuses everything fails here."""
    for name in ("plain", "with space", "é", "-x"):
        path = tmp_path / name
        cache(path)
        for options in ({}, {"read_only": True}):
            with Cache(path, **options) as opened:
                hits = sum(opened.get(n) == f"value {n}" for n in range(ENTRIES))
            assert hits == ENTRIES
            trials.add(1, "right files")
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o700)
    shutil.copyfile(tmp_path / "plain", folder / "cache.tuck")
    (tmp_path / "link").symlink_to("folder")
    with Cache(tmp_path / "link" / "cache.tuck") as opened:
        assert len(opened) == ENTRIES
    trials.add(1, "right files")


# Negative controls: openers that get one thing wrong.


def starts_anew(path: Path, **options: Any) -> Any:
    try:
        return Cache(path, **options)
    except (tuckbox.errors.NotACache, tuckbox.errors.CacheCorrupt, tuckbox.errors.VersionMismatch):
        path.unlink()
        return Cache(path)


def follows(path: Path, **options: Any) -> Any:
    return Cache(os.path.realpath(path), **options)


def marks(path: Path, **options: Any) -> Any:
    try:
        return Cache(path, **options)
    except tuckbox.errors.NotACache:
        with open(path, "ab") as stream:
            stream.write(b"!")
        raise


def mumbles(path: Path, **options: Any) -> Any:
    try:
        return Cache(path, **options)
    except tuckbox.errors.CacheOpenError as error:
        raise type(error)(error.errno, "cannot open it", error.filename) from error


def opens_what_is_there(path: Path, **options: Any) -> Any:
    try:
        return Cache(path, **options)
    except tuckbox.errors.UnsafeFile:
        return Cache()


CONTROLS = {
    "starts anew": (starts_anew, "it was opened"),
    "follows links": (follows, "it was opened"),
    "marks foreign files": (marks, "it was changed"),
    "mumbles": (mumbles, "cannot open it"),
    "opens what is unsafe": (opens_what_is_there, "it was opened"),
}


@pytest.mark.family("T-C4")
@pytest.mark.parametrize("name", CONTROLS)
def test_a_wrong_opener_is_noticed(tmp_path: Path, trials: Any, name: str) -> None:
    opener, words = CONTROLS[name]
    found = []
    for number, case in enumerate(CASES):
        if case.at.startswith("/") or "\0" in case.at:
            continue
        place = tmp_path / str(number)
        place.mkdir()
        failure = verdict(case, place, opener)
        found += [failure] if failure else []
    assert any(words in failure for failure in found), found[:3]
    trials.add(1, "controls")
