"""T-P1: who may open which file, for what, and what rights a new one gets.

The table of users, modes of directories and files, and ways is judged by rules that are written
down here once more, without the product: those of the system, then those of
docs/reference/semantics.md.
"""

from __future__ import annotations

import dataclasses
import os
import pickle
import random
import shutil
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable

import pytest

import tuckbox
from reliability.actors import Actor, common_folder, demand, user
from tuckbox import Cache

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OWNER, MEMBER, OTHER, STRANGER, ROOT = 61001, 61002, 61003, 61009, 0
GROUP, OTHERS_GROUP = 62001, 62003
GROUPS = {OWNER: GROUP, MEMBER: GROUP, OTHER: OTHERS_GROUP, ROOT: 0}
NAMES = {OWNER: "owner", MEMBER: "same group", OTHER: "other", ROOT: "root"}
ENTRIES = 20


@dataclass(frozen=True)
class Case:
    """One opening."""

    user: int
    folder_mode: int
    access: str  # create, rw or ro
    file_mode: int = 0o600
    way: str = "plain"  # or: own link, foreign link
    folder_owner: int = OWNER
    umask: int = 0o022
    group: bool = False

    def __str__(self) -> str:
        parts = [NAMES[self.user], f"directory {self.folder_mode:04o} of {self.folder_owner}"]
        parts += [self.access, f"file {self.file_mode:04o}", self.way, f"umask {self.umask:03o}"]
        return ", ".join(parts + ["group"] * self.group)


def all_cases() -> list[Case]:
    users = (OWNER, MEMBER, OTHER, ROOT)
    cases = []
    for who in users:
        for folder_mode in (0o700, 0o750, 0o755, 0o777, 0o1777):
            cases.append(Case(who, folder_mode, "create"))
            for file_mode in (0o600, 0o640, 0o660, 0o666):
                cases += [Case(who, folder_mode, access, file_mode) for access in ("rw", "ro")]
        for access in ("create", "rw", "ro"):
            for way in ("own link", "foreign link"):
                cases.append(Case(who, 0o755, access, 0o644, way))
            for folder_mode in (0o755, 0o1777):
                cases.append(Case(who, folder_mode, access, 0o644, folder_owner=STRANGER))
            for folder_mode in (0o750, 0o755, 0o2770, 0o2775, 0o777):
                cases.append(Case(who, folder_mode, access, 0o660, group=True))
        cases.append(Case(who, 0o755, "rw", 0o600, group=True))
        cases.append(Case(who, 0o755, "ro", 0o640, group=True))
        for umask in (0o000, 0o022, 0o077):
            for folder_mode in (0o1777, 0o2770):
                for group in (False, True):
                    case = Case(who, folder_mode, "create", umask=umask, group=group)
                    cases.append(case)
    return cases


def may(case: Case, owner: int, mode: int, wanted: int) -> bool:
    """Whether the system lets the user do it."""
    if case.user == ROOT:
        return True
    shift = 6 if case.user == owner else 3 if GROUPS[case.user] == GROUP else 0
    return mode >> shift & wanted == wanted


def folder_is_unsafe(case: Case, file_owner: int) -> str | None:
    # Folders are given to the group as well as to their owner.
    trusted = case.folder_owner in {case.user, file_owner, ROOT} or case.group
    if not trusted:
        return f"belongs to user {case.folder_owner}, who can replace it"
    if not case.folder_mode & 0o1000:
        if case.folder_mode & 0o002:
            return "lets every user replace it"
        if case.folder_mode & 0o020 and not case.group:
            return f"lets group {GROUP} replace it"
    return None


def expected(case: Case) -> tuple[str, str]:
    """The error, and words of its message; `ok` if there is none."""
    if case.way == "foreign link":
        return "UnsafeFile", "the symbolic link way in its path belongs to user"
    if not may(case, case.folder_owner, case.folder_mode, 0o1):
        return "AccessDenied", "Permission denied"
    if case.access == "create":
        unsafe = folder_is_unsafe(case, case.user)
        if unsafe and case.group:
            return "UnsafeFile", unsafe
        if not may(case, case.folder_owner, case.folder_mode, 0o3):
            return "AccessDenied", "Permission denied"
        if case.group and case.user != ROOT and GROUPS[case.user] != GROUP:
            return "AccessDenied", "cannot set the group"
        return "ok", ""
    return expected_of_a_file(case)


def own_folder(case: Case) -> str | None:
    """The folder in which a new file has to be, if others could replace it elsewhere."""
    is_apart = case.access == "create" and not case.group and folder_is_unsafe(case, case.user)
    return f".tuckbox-{case.user}" if is_apart else None


def expected_of_a_file(case: Case) -> tuple[str, str]:
    reads = case.access == "ro"
    if not may(case, OWNER, case.file_mode, 0o4 if reads else 0o6):
        return "AccessDenied", "Permission denied"
    shared = 0o040 if reads else 0o060
    if case.group:
        if case.file_mode & shared != shared:
            return "UnsafeFile", f"it is not shared with group {GROUP}"
    elif case.file_mode & 0o020:
        return "UnsafeFile", f"lets group {GROUP} write to it"
    if case.file_mode & 0o002:
        return "UnsafeFile", "lets every user write to it"
    trusts = reads and case.folder_owner == OWNER
    if not (case.user == OWNER or case.group or trusts):
        return "UnsafeFile", f"it belongs to user {OWNER}, but this process runs as user"
    if unsafe := folder_is_unsafe(case, OWNER):
        return "UnsafeFile", unsafe
    return "ok", ""


def attempt(opener: Callable[..., Any], path: str, case: Case) -> tuple[str, str, int]:
    """Open as the case says, in the process of its user; how many entries were read back."""
    os.umask(case.umask)
    options: dict[str, Any] = {"read_only": True} if case.access == "ro" else {"size": "64 KiB"}
    if case.group:
        options["group"] = GROUP
    try:
        cache = opener(path, **options)
    except tuckbox.errors.CacheOpenError as error:
        assert error.filename == path, error
        return type(error).__name__, str(error), 0
    with cache:
        if case.access == "create":
            for number in range(ENTRIES):
                cache[number] = f"value {number}"
        elif case.access == "rw":
            cache["another"] = "value"
            assert cache.get("another") == "value", "what was stored is not there"
        hits = sum(cache.get(number) == f"value {number}" for number in range(ENTRIES))
    return "ok", "", hits


def in_own_folder(case: Case, folder: Path) -> list[str]:
    """What is in a folder that Tuckbox made, and what is wrong with that."""
    if not folder.exists():
        return ["no folder of its own"]
    data = folder.stat()
    is_private = (data.st_uid, data.st_mode & 0o1777) == (case.user, 0o700)
    wrong = [] if is_private else [f"a folder {stat.filemode(data.st_mode)} of {data.st_uid}"]
    return wrong + os.listdir(folder)


class Scenes:
    """Makes the files of a case, and judges what has become of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        template = folder / "template.tuck"
        with Cache(template, size="64 KiB") as cache:
            for number in range(ENTRIES):
                cache[number] = f"value {number}"
        self.template = template

    def make(self, case: Case) -> tuple[str, Path]:
        self.count += 1
        scene = self.folder / f"scene-{self.count}"
        box = scene / "box"
        box.mkdir(parents=True)
        scene.chmod(0o755)
        if case.access != "create":
            file = box / "cache.tuck"
            shutil.copyfile(self.template, file)
            os.chown(file, OWNER, GROUP)
            file.chmod(case.file_mode)
        os.chown(box, case.folder_owner, GROUP)
        box.chmod(case.folder_mode)
        if case.way == "plain":
            return str(box / "cache.tuck"), box
        link = scene / "way"
        link.symlink_to("box")
        os.chown(link, case.user if case.way == "own link" else STRANGER, 0, follow_symlinks=False)
        return str(link / "cache.tuck"), box

    def judge(self, case: Case, box: Path, outcome: tuple[str, str, int]) -> str | None:
        """What is wrong, if anything."""
        name, words = expected(case)
        got, message, hits = outcome
        if got != name or words not in message:
            return f"{case}: expected {name} ({words}), got {got} ({message})"
        there = os.listdir(box)
        if name != "ok":
            advice = ("run: ", "choose", "use a path", "change the permissions", "ask its owner")
            if not any(words in message for words in advice):
                return f"{case}: does not say what to do: {message}"
            if case.access == "create":
                return f"{case}: left behind {there}" if there else None
            return self.unchanged(case, box)
        if hits < ENTRIES:
            return f"{case}: only {hits} of {ENTRIES} entries were found"
        if own := own_folder(case):
            box /= own
            there = [name for name in there if name != own] + in_own_folder(case, box)
        if there != ["cache.tuck"]:
            return f"{case}: left behind {there}"
        file = (box / "cache.tuck").stat()
        if case.access == "create":
            mode = 0o660 if case.group else 0o600
            if stat.S_IMODE(file.st_mode) != mode or file.st_uid != case.user:
                return f"{case}: made with {stat.filemode(file.st_mode)} of {file.st_uid}"
            if case.group and file.st_gid != GROUP:
                return f"{case}: made for group {file.st_gid}"
        if case.access == "ro":
            return self.unchanged(case, box)
        return None

    def unchanged(self, case: Case, box: Path) -> str | None:
        file = box / "cache.tuck"
        found = file.stat()
        same = (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (
            OWNER,
            GROUP,
            case.file_mode,
        )
        if not same or file.read_bytes() != self.template.read_bytes():
            return f"{case}: the file was changed"
        return None


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with common_folder() as folder:
        yield folder


@pytest.fixture
def actors() -> Iterator[dict[int, Actor]]:
    demand("to act as other users", is_there=os.geteuid() == 0)
    made: dict[int, Actor] = {}
    try:
        for who, group in GROUPS.items():
            made[who] = Actor(user(who, group))
        yield made
    finally:
        for actor in made.values():
            actor.__exit__(None, None, None)


def wrong(
    actors: dict[int, Actor], scenes: Scenes, opener: Callable[..., Any], cases: list[Case]
) -> Iterator[str]:
    for case in cases:
        path, box = scenes.make(case)
        outcome = actors[case.user].call(attempt, opener, path, case)
        verdict = scenes.judge(case, box, outcome)
        if verdict:
            yield verdict
        shutil.rmtree(box.parent)


@pytest.mark.family("T-P1")
def test_every_user_gets_what_the_rules_say(
    tmp_path: Path, trials: Any, seed: int, actors: dict[int, Actor]
) -> None:
    cases = all_cases()
    random.Random(seed).shuffle(cases)
    failures = list(wrong(actors, Scenes(tmp_path), Cache, cases))
    allowed = sum(expected(case)[0] == "ok" for case in cases)
    # A table that refuses everything, or nothing, would show nothing.
    assert allowed >= len(cases) // 6
    assert len(cases) - allowed >= len(cases) // 3
    trials.add(len(cases), "cases")
    trials.figure("cases_allowed", allowed)
    assert not failures, "\n".join(failures[:10])


_kept: list[Cache] = []


def show_private() -> bytes:
    """Make a private cache, keep it open, and tell the way to it."""
    cache = Cache()
    cache["k"] = "v"
    _kept.append(cache)
    return pickle.dumps(cache)


def open_shown(way: bytes) -> str:
    try:
        with pickle.loads(way) as cache:
            return str(cache["k"])
    except tuckbox.errors.CacheFileError as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.family("T-P1")
def test_a_private_cache_is_reached_by_its_own_user_alone(
    trials: Any, actors: dict[int, Actor]
) -> None:
    way = actors[MEMBER].call(show_private)
    # The system itself keeps others from looking into that process; not so root.
    assert actors[OTHER].call(open_shown, way).startswith("CacheLost: ")
    assert "it is not a private cache of this user" in actors[ROOT].call(open_shown, way)
    way = actors[ROOT].call(show_private)
    with Actor(user(ROOT, 0)) as another:
        assert another.call(open_shown, way) == "v"
    trials.add(3, "cases")


def test_the_reduced_table_for_one_user(tmp_path: Path) -> None:
    """Where nobody else can be acted as: modes of files and directories of our own."""
    me, count = os.geteuid(), 0
    for folder_mode in (0o700, 0o755, 0o757, 0o777, 0o1777):
        for file_mode in (0o600, 0o640, 0o660, 0o666, 0o602):
            for read_only in (False, True):
                box = tmp_path / f"{folder_mode:o}-{file_mode:o}-{read_only}"
                box.mkdir()
                path = box / "cache.tuck"
                with Cache(path, size="64 KiB") as cache:
                    cache["k"] = "v"
                path.chmod(file_mode)
                box.chmod(folder_mode)
                is_safe = not file_mode & 0o022 and (
                    not folder_mode & 0o022 or bool(folder_mode & 0o1000)
                )
                if is_safe:
                    with Cache(path, read_only=read_only) as cache:
                        assert cache["k"] == "v"
                else:
                    with pytest.raises(tuckbox.errors.UnsafeFile, match="run: chmod"):
                        Cache(path, read_only=read_only)
                assert path.stat().st_uid == me
                count += 1
    assert count == 50


# Negative controls: what opens caches wrongly must be noticed.


class Private:
    """Opens what it should refuse."""

    def __new__(cls, path: str, **options: Any) -> Any:
        try:
            return Cache(path, **options)
        except tuckbox.errors.UnsafeFile:
            cache = Cache()
            for number in range(ENTRIES):
                cache[number] = f"value {number}"
            return cache


def refuses_all(path: str, **options: Any) -> Any:
    raise tuckbox.errors.AccessDenied(
        13, f"cannot open {path}: Permission denied; choose another", path
    )


class AlwaysMissing(Cache):
    def get(self, key: Any, default: Any = None) -> Any:
        return default


def leaves_the_mask_alone(path: str, **options: Any) -> Any:
    there = os.path.exists(path)
    cache = Cache(path, **options)
    if not there:
        os.chmod(path, 0o666 & ~os.umask(0))
    return cache


CONTROLS = {
    "opens what is unsafe": (Private, "expected UnsafeFile"),
    "refuses everything": (refuses_all, "expected ok"),
    "always misses": (AlwaysMissing, "not there|entries were found"),
    "goes by the mask": (leaves_the_mask_alone, "made with"),
}


@pytest.mark.family("T-P1")
@pytest.mark.parametrize("name", CONTROLS)
def test_a_wrong_opener_is_noticed(
    tmp_path: Path, trials: Any, actors: dict[int, Actor], name: str
) -> None:
    import re

    opener, words = CONTROLS[name]
    scenes, caught = Scenes(tmp_path), ""
    for case in all_cases():
        if "mask" in name:
            case = dataclasses.replace(case, umask=0)  # noqa: PLW2901 - So that it shows.
        try:
            caught = next(wrong(actors, scenes, opener, [case]), "")
        except AssertionError as error:
            caught = str(error)
        if caught:
            break
    assert re.search(words, caught), caught or "it was not noticed"
    trials.add(1, "controls")
