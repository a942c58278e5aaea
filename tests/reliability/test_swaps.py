"""T-S3: somebody swaps files, links and directories under the path while a cache is opened.

The attacker puts things in the place of the file, or of its directory, as fast as it can; the
victim opens the path again and again, makes the file if it is missing, and looks through its own
descriptors at what it got. It must never have a file that is not its own, never follow a link of
the attacker's, never write a byte to a bait; and where nothing is in the way it must find what it
stored.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import random
import shutil
import signal
import time
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Callable

import pytest

import tuckbox
from reliability.actors import Actor, common_folder, demand, user
from tuckbox import Cache

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VICTIM, ATTACKER = 61001, 61003
ENTRIES = 10
RENAME_EXCHANGE = 2
COUNTS = ("opens", "right", "made", "hits", "lost")
_libc = ctypes.CDLL(None, use_errno=True)


def exchange(one: Path, other: Path) -> None:
    """Let two names change places in one instant."""
    names = (os.fsencode(one), os.fsencode(other))
    if _libc.renameat2(-100, names[0], -100, names[1], RENAME_EXCHANGE) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


def given(path: Path, owner: int, mode: int | None = None) -> Path:
    os.chown(path, owner, owner, follow_symlinks=False)
    if mode is not None:
        path.chmod(mode)
    return path


def filled(path: Path, what: str) -> Path:
    with Cache(path, size="64 KiB") as cache:
        for number in range(ENTRIES):
            cache[number] = f"{what} {number}"
    return path


class Scene:
    """Where they meet.

    ``open/box`` is the victim's directory, in a directory that everybody may write to without the
    sticky bit: the attacker swaps the box. ``volume`` is like an ``emptyDir`` of Kubernetes: the
    victim's file is in ``own``, a folder that Tuckbox makes. The attacker swaps that folder, and
    lays things of its own at the path of the file. ``sticky`` is like ``/tmp``, with such things,
    too. ``baits`` are what the victim must never get.
    """

    def __init__(self, folder: Path) -> None:
        self.open = folder / "open"
        self.open.mkdir()
        self.open.chmod(0o777)
        self.box = self.open / "box"
        self.box.mkdir(mode=0o700)
        given(filled(self.box / "cache.tuck", "right"), VICTIM, 0o600)
        given(self.box, VICTIM)
        self.volume = folder / "volume"
        self.volume.mkdir()
        self.volume.chmod(0o777)
        self.own = self.volume / f".tuckbox-{VICTIM}"
        self.own.mkdir(mode=0o700)
        given(filled(self.own / "cache.tuck", "right"), VICTIM, 0o600)
        given(self.own, VICTIM)
        self.sticky = folder / "sticky"
        self.sticky.mkdir()
        self.sticky.chmod(0o1777)
        # The victim's other files, which it must not be led to.
        self.elsewhere = folder / "elsewhere"
        self.elsewhere.mkdir(mode=0o700)
        given(self.elsewhere, VICTIM)
        self.precious = given(filled(folder / "precious.tuck", "precious"), VICTIM, 0o600)
        # The attacker's own.
        self.planted = folder / "planted"
        self.planted.mkdir()
        given(filled(self.planted / "cache.tuck", "planted"), ATTACKER, 0o666)
        given(self.planted, ATTACKER, 0o777)
        self.before = self.state()

    def state(self) -> dict[str, str]:
        files = [self.precious, self.planted / "cache.tuck", *self.elsewhere.iterdir()]
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    def baits(self) -> set[tuple[int, int]]:
        files = [self.precious, self.planted / "cache.tuck"]
        return {(data.st_dev, data.st_ino) for data in map(os.stat, files)}


def attack(scene: Scene, seed: int) -> None:
    """Swap without end. Runs as root, whom no protection of links stops, and creates files that
    belong to the attacker."""
    draw = random.Random(seed)
    links = scene.open / "link"
    links.symlink_to(scene.elsewhere)
    given(links, ATTACKER)
    planted = scene.open / "planted"
    shutil.copytree(scene.planted, planted)
    given(planted, ATTACKER, 0o777)
    given(planted / "cache.tuck", ATTACKER, 0o666)
    while True:
        # The directory of the file: a link to another of the victim's, or one of the attacker's.
        bait = draw.choice([links, planted])
        for folder in (scene.box, scene.own):
            exchange(folder, bait)
            pause(draw)
            exchange(folder, bait)
        # The file: in turn everything that a name can lead to.
        for folder in (scene.sticky, scene.volume):
            target, fresh = folder / "cache.tuck", folder / "fresh"
            remove(fresh)
            with suppress(OSError):
                lay(draw.randrange(6), scene, fresh)
                remove(target)
                os.rename(fresh, target)
            pause(draw)
            remove(target)
            pause(draw)


def remove(path: Path) -> None:
    """Remove whatever is there; the victim may have been faster."""
    for act in (os.unlink, os.rmdir):
        with suppress(OSError):
            act(path)


def pause(draw: random.Random) -> None:
    until = time.perf_counter() + draw.random() * 0.0005
    while time.perf_counter() < until:
        pass


def lay(kind: int, scene: Scene, path: Path) -> None:
    if kind == 0:
        path.symlink_to(scene.precious)
    elif kind == 1:
        path.symlink_to(scene.elsewhere / "made.tuck")
    elif kind == 2:
        os.link(scene.precious, path)
        return
    elif kind == 3:
        shutil.copyfile(scene.planted / "cache.tuck", path)
        path.chmod(0o666)
    elif kind == 4:
        path.mkdir()
    else:
        os.mkfifo(path, 0o666)
    given(path, ATTACKER)


def held() -> Iterator[os.stat_result]:
    """Every regular file that this process has open."""
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            data = os.fstat(int(number))
            name = os.readlink(f"/proc/self/fd/{number}")
            if data.st_mode & 0o170000 == 0o100000 and "tuck" in name:
                yield data


def use(cache: Cache, is_new: bool) -> tuple[str, Any]:
    """Look for what must be there; what was made, or met, and whether that was a hit."""
    values = [cache.get(number) for number in range(ENTRIES)]
    if not is_new:
        return "right", values == [f"right {number}" for number in range(ENTRIES)]
    # What was just made: nobody else may have anything in it.
    if any(value is not None for value in values):
        return "made", values[0]
    cache[0] = "mine"
    return "made", cache.get(0) == "mine"


def suffer(
    opener: Callable[..., Any], scene: Scene, seconds: float, baits: set[tuple[int, int]]
) -> dict[str, Any]:
    """Open the three paths until the time is over."""
    found: dict[str, Any] = {**dict.fromkeys(COUNTS, 0), "refused": {}}
    wrong: list[str] = []
    # Such as the log of who runs this, in a folder named after Tuckbox.
    inherited = {(data.st_dev, data.st_ino) for data in held()}
    until = time.monotonic() + seconds
    while time.monotonic() < until and len(wrong) < 5:
        found["opens"] += 1
        which = found["opens"] % 4
        folder = (scene.sticky, scene.box, scene.box, scene.volume)[which]
        path = folder / "cache.tuck"
        try:
            # A new file is small: making it is what is to be raced.
            cache = opener(str(path), **({"read_only": True} if which == 1 else {"size": 65536}))
        except tuckbox.errors.CacheOpenError as error:
            name = type(error).__name__
            found["refused"][name] = found["refused"].get(name, 0) + 1
            continue
        for data in held():
            file = (data.st_dev, data.st_ino)
            if file not in inherited and (data.st_uid != VICTIM or file in baits):
                wrong.append(f"{path}: it had a file of user {data.st_uid}, {data.st_ino}")
        try:
            with cache:
                name, hit = use(cache, which == 0)
        except tuckbox.errors.CacheLost:
            # The attacker may remove files, too.
            found["lost"] += 1
        else:
            found[name] += 1
            found["hits"] += hit is True
            if hit not in {True, False}:
                wrong.append(f"{path}: it held {hit!r}")
        if which == 0:
            with suppress(OSError):
                os.unlink(path)
    return {**found, "wrong": wrong}


def race(opener: Callable[..., Any], folder: Path, seconds: float, seed: int) -> dict[str, Any]:
    """Let them meet; what the victim found, and what was wrong."""
    scene = Scene(folder)
    baits = scene.baits()
    attacker = os.fork()
    if attacker == 0:
        try:
            attack(scene, seed)
        finally:
            traceback.print_exc()
            os._exit(1)
    try:
        with Actor(user(VICTIM, VICTIM)) as victim:
            found: dict[str, Any] = {**dict.fromkeys(COUNTS, 0), "refused": {}, "wrong": []}
            until = time.monotonic() + seconds
            while time.monotonic() < until and not found["wrong"]:
                part = victim.call(suffer, opener, scene, min(5.0, seconds), baits)
                for name in COUNTS:
                    found[name] += part[name]
                for name, count in part["refused"].items():
                    found["refused"][name] = found["refused"].get(name, 0) + count
                found["wrong"] += part["wrong"]
        if os.waitpid(attacker, os.WNOHANG)[0]:
            attacker = 0
            found["wrong"].append("the attacker gave up")
    finally:
        if attacker:
            os.kill(attacker, signal.SIGKILL)
            os.waitpid(attacker, 0)
    if scene.state() != scene.before:
        found["wrong"].append(f"something else was changed or made: {sorted(scene.state())}")
    opened = found["right"] + found["made"]
    if found["hits"] < opened * 0.99 or not found["right"] or not found["made"]:
        found["wrong"].append(f"{found['hits']} hits of {opened} opened")
    if found["refused"].get("AccessDenied", 0) > found["opens"] // 2:
        found["wrong"].append(f"the victim could not get there: {found['refused']}")
    if not found["refused"]:
        found["wrong"].append("the attacker never was in the way")
    return found


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with common_folder() as folder:
        yield folder


@pytest.mark.family("T-S3")
@pytest.mark.timeout(120)
def test_it_never_has_another_file_than_its_own(
    tmp_path: Path, trials: Any, size: Any, seed: int
) -> None:
    demand("to act as other users", is_there=os.geteuid() == 0)
    found = race(Cache, tmp_path, size(20, 300), seed)
    trials.add(found["opens"], "opens")
    for name in (*COUNTS[1:], "refused"):
        trials.figure(name, found[name])
    assert not found["wrong"], "\n".join(found["wrong"])
    # All that was laid in its way was met.
    assert {"UnsafeFile", "NotAFile"} <= set(found["refused"]), found["refused"]


# Negative controls: what a cache would do without one of the rules.


def follows(path: str, **options: Any) -> Any:
    """As `open` without O_NOFOLLOW, by a path that is looked at first and used later."""
    try:
        target = os.path.realpath(path)
    except OSError:
        # Between the two looks that `realpath` has at a link it went (ENOENT), or a directory took
        # its place (EINVAL).
        target = path
    return Cache(target, **options)


def trusts(path: str, **options: Any) -> Any:
    """Takes what it is offered, whoever made it."""
    try:
        return Cache(path, **options)
    except tuckbox.errors.UnsafeFile:
        try:
            number = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        except OSError as error:
            raise tuckbox.errors.AccessDenied(error.errno, "cannot open", path) from error
        cache = Holding()
        cache.number = number
        return cache


class Holding(Cache):
    number = -1

    def close(self) -> None:
        super().close()
        if self.number >= 0:
            os.close(self.number)
            self.number = -1


class AlwaysMissing(Cache):
    def get(self, key: Any, default: Any = None) -> Any:
        return default


CONTROLS = {
    "follows links": (follows, "changed or made|had a file|it held"),
    "trusts every owner": (trusts, "had a file"),
    "always misses": (AlwaysMissing, "hits of"),
}


@pytest.mark.family("T-S3")
@pytest.mark.parametrize("name", CONTROLS)
def test_a_careless_opener_is_noticed(tmp_path: Path, trials: Any, seed: int, name: str) -> None:
    import re

    demand("to act as other users", is_there=os.geteuid() == 0)
    opener, words = CONTROLS[name]
    found = race(opener, tmp_path, 3, seed)
    assert any(re.search(words, wrong) for wrong in found["wrong"]), found
    trials.add(1, "controls")
