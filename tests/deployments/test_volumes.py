"""Volumes as Kubernetes and Docker mount them: whose they are, and who else can write to them."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import pytest

from deployments.containers import (
    VOLUME,
    Container,
    again,
    fetch,
    listed,
    refusal,
    rootless,
    store,
)
from reliability.actors import Actor, common_folder, demand, demand_mounts, user
from tuckbox import Cache
from tuckbox.errors import SeparateCacheWarning

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATH = f"{VOLUME}/app.tuck"
FS_GROUP = 2000
ANOTHER = 1001
SMALL = {"size": "1 MiB"}


@pytest.fixture
def volume() -> Iterator[Path]:
    demand("to act as other users", is_there=os.geteuid() == 0)
    demand_mounts()
    with common_folder() as folder:
        (folder / "volume").mkdir()
        yield folder / "volume"


def made(volume: Path, mode: int, owner: int = 0, group: int = 0) -> Path:
    os.chown(volume, owner, group)
    volume.chmod(mode)
    return volume


VOLUMES = {
    # What Kubernetes makes of `emptyDir`, and with `fsGroup` of that and of other volumes.
    "emptyDir": (0o777, 0, 0),
    "emptyDir with fsGroup": (0o2777, 0, FS_GROUP),
    "fsGroup": (0o2775, 0, FS_GROUP),
    # Directories of the host, bound into the container.
    "everybody's, of another user": (0o777, 1001, 1001),
    "of this user, who has no name here": (0o775, 1000, 1000),
    "of root's group, as with OpenShift": (0o775, 0, 0),
}


@pytest.mark.parametrize("name", VOLUMES)
def test_a_volume_works_without_any_setting(volume: Path, name: str) -> None:
    container = Container(made(volume, *VOLUMES[name]), groups=(FS_GROUP,))
    with container.start() as one, container.start() as other:
        path = one.call(store, PATH, "key", "value")
        assert path == f"{VOLUME}/.tuckbox-1000/app.tuck"
        assert other.call(fetch, PATH, "key") == "value"
        assert one.call(listed, VOLUME) == {".tuckbox-1000": (1000, "0700")}
        assert one.call(listed, os.path.dirname(path)) == {"app.tuck": (1000, "0600")}
    # As a new pod finds it.
    with container.start() as later:
        assert later.call(fetch, PATH, "key") == "value"


def test_the_private_folder_does_not_take_a_container(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    own = f".tuckbox-{os.geteuid()}"
    with Cache(tmp_path / "app.tuck", **SMALL) as cache:
        assert cache.path == f"{tmp_path}/{own}/app.tuck"
        cache["key"] = "value"
    with Cache(tmp_path / "app.tuck") as cache:
        cache.resize("2 MiB")
        assert (cache.size, cache["key"], os.listdir(tmp_path)) == (2 << 20, "value", [own])


@pytest.mark.parametrize("mode", [0o777, 0o755])
def test_root_in_a_container_uses_a_directory_of_a_user_of_the_host(
    volume: Path, mode: int
) -> None:
    container = Container(made(volume, mode, 1000, 1000), user=0)
    with container.start() as one, container.start() as other:
        assert one.call(store, PATH, "key", "value") == f"{VOLUME}/.tuckbox-0/app.tuck"
        assert other.call(fetch, PATH, "key") == "value"


def test_root_without_privileges_uses_a_directory_of_the_machine(volume: Path) -> None:
    path = str(made(volume, 0o777) / "app.tuck")
    with Actor(rootless(1000)) as one, Actor(rootless(1000)) as other:
        assert one.call(store, path, "key", "value") == f"{volume}/.tuckbox-0/app.tuck"
        assert other.call(fetch, path, "key") == "value"
    # Another such root: the folder has the name of its own, but is not its own.
    with Actor(rootless(1001)) as stranger:
        refused = stranger.call(refusal, path)
        assert refused.startswith("UnsafeFile: "), refused
        assert f"{volume}/.tuckbox-0 belongs to user 65534" in refused


def test_containers_of_several_users_share_a_volume_of_a_group(volume: Path) -> None:
    made(volume, 0o2775, 0, FS_GROUP)
    with (
        Container(volume, 1000, groups=(FS_GROUP,)).start() as one,
        Container(volume, 1001, groups=(FS_GROUP,)).start() as other,
    ):
        assert one.call(store, PATH, "key", "value", group=FS_GROUP) == PATH
        assert other.call(fetch, PATH, "key", group=FS_GROUP) == "value"


def test_the_advice_for_a_group_in_an_emptydir_works(volume: Path) -> None:
    made(volume, 0o2777, 0, FS_GROUP)
    with (
        Container(volume, 1000, groups=(FS_GROUP,)).start() as one,
        Container(volume, 1001, groups=(FS_GROUP,)).start() as other,
    ):
        refused = one.call(refusal, PATH, group=FS_GROUP)
        command = re.search(r"use a new directory: (.*)$", refused)
        assert command, refused
        assert one.call(os.system, command[1]) == 0
        path = f"{VOLUME}/tuckbox/app.tuck"
        assert one.call(store, path, "key", "value", group=FS_GROUP) == path
        assert other.call(fetch, path, "key", group=FS_GROUP) == "value"


def start_pod(volume: Path) -> None:
    """Give everything to the group, as Kubernetes does at each start of a pod with `fsGroup`."""
    for folder, _, files in os.walk(volume):
        for name, bits in ((folder, 0o2770), *((f"{folder}/{file}", 0o660) for file in files)):
            os.chown(name, -1, FS_GROUP)
            os.chmod(name, os.stat(name).st_mode | bits)


def test_a_new_pod_with_fsgroup_starts_with_an_empty_cache(volume: Path) -> None:
    start_pod(made(volume, 0o755))
    container = Container(volume, groups=(FS_GROUP,))
    with container.start() as one:
        own = os.path.dirname(one.call(store, PATH, "key", "first"))
        start_pod(volume)
        with container.start() as other:
            assert other.call(fetch, PATH, "key") is None
            assert other.call(store, PATH, "key", "second").startswith(own)
            assert other.call(listed, VOLUME) == {".tuckbox-1000": (1000, "0700")}
            assert other.call(listed, own) == {"app.tuck": (1000, "0600")}
            # The pod that has the old file open is not disturbed.
            assert one.call(again, "key") in {"first", "second"}


def keep_open(path: str) -> int:
    """Open a file for writing, and give it another name."""
    os.link(path, f"{VOLUME}/link")
    return os.open(path, os.O_RDWR)


def can_be_opened(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY))
    except PermissionError:
        return False
    return True


def test_what_the_group_could_have_changed_is_not_used(volume: Path) -> None:
    start_pod(made(volume, 0o755))
    container = Container(volume, groups=(FS_GROUP,))
    member = Container(volume, ANOTHER, groups=(FS_GROUP,))
    with container.start() as one, member.start() as other:
        path = one.call(store, PATH, "key", "first")
        assert not other.call(can_be_opened, path)
        start_pod(volume)
        number = other.call(keep_open, path)
        with container.start() as later:
            assert later.call(store, PATH, "key", "second") == path
        assert not other.call(can_be_opened, path)
        changeable = other.call(os.fstat, number)
        present = os.stat(volume / os.path.relpath(path, VOLUME))
        assert (changeable.st_dev, changeable.st_ino) != (present.st_dev, present.st_ino)
        assert present.st_nlink == 1


def test_a_private_folder_that_was_opened_has_no_other_in_it(volume: Path) -> None:
    start_pod(made(volume, 0o755))
    with Container(volume, groups=(FS_GROUP,)).start() as container:
        path = container.call(store, PATH, "key", "value")
        start_pod(volume)
        os.unlink(volume / os.path.relpath(path, VOLUME))
        refused = container.call(refusal, path)
        assert refused.startswith(f"UnsafeFile: {path} is not safe to use: the mode 2770"), refused
        assert container.call(store, PATH, "key", "value") == path


def test_a_new_pod_with_fsgroup_keeps_the_cache_of_the_group(volume: Path) -> None:
    start_pod(made(volume, 0o755))
    container = Container(volume, groups=(FS_GROUP,))
    with container.start() as one:
        assert one.call(store, PATH, "key", "value", group=FS_GROUP) == PATH
    start_pod(volume)
    with container.start() as other:
        assert other.call(fetch, PATH, "key", group=FS_GROUP) == "value"


def test_a_killed_container_leaves_a_whole_cache(volume: Path) -> None:
    container = Container(made(volume, 0o777))
    with container.start() as other:
        with container.start() as one:
            one.call(store, PATH, "key", "value")
        assert other.call(fetch, PATH, "key") == "value"
        other.call(store, PATH, "next", 1)
        assert other.call(again, "key") == "value"


# What another user can do in the same volume.


@pytest.mark.parametrize("kind", ["folder", "link", "file"])
def test_another_users_folder_is_refused(volume: Path, kind: str) -> None:
    made(volume, 0o777)
    own = volume / ".tuckbox-1000"
    if kind == "folder":
        own.mkdir(0o777)
    elif kind == "link":
        (volume / "target").mkdir()
        own.symlink_to("target")
    else:
        own.write_text("")
    os.chown(own, ANOTHER, ANOTHER, follow_symlinks=False)
    with Container(volume).start() as container:
        refused = container.call(refusal, PATH)
        found = "belongs to user 1001" if kind == "folder" else "is not a directory"
        assert refused == (
            f"UnsafeFile: {PATH} is not safe to use: others can replace files in its directory, "
            f"and {VOLUME}/.tuckbox-1000 {found}; choose another path, or remove what another user "
            f"put there: rm -r {VOLUME}/.tuckbox-1000"
        )
        # The advice works.
        assert container.call(os.system, f"rm -r {VOLUME}/.tuckbox-1000") == 0
        assert container.call(store, PATH, "key", "value")


def test_a_file_that_is_at_the_path_is_judged_there(volume: Path) -> None:
    made(volume, 0o755, 1000)
    with Container(volume).start() as container:
        assert container.call(store, PATH, "key", "value") == PATH
        volume.chmod(0o777)
        refused = container.call(refusal, PATH)
        assert "UnsafeFile: " in refused
        assert "lets every user replace it; run: chmod go-w" in refused


def test_a_reader_creates_no_folder(volume: Path) -> None:
    made(volume, 0o777)
    with Container(volume).start() as container:
        refused = container.call(refusal, PATH, read_only=True)
        assert refused.startswith(f"FileMissing: {PATH} does not exist")
        assert container.call(listed, VOLUME) == {}
        path = container.call(store, PATH, "key", "value")
        assert container.call(fetch, PATH, "key", read_only=True) == "value"
        # A reader changes nothing, so it leaves a folder as others opened it.
        os.chmod(volume / ".tuckbox-1000", 0o755)
        refused = container.call(refusal, PATH, read_only=True)
        assert f"{os.path.dirname(path)} has mode 0755, so it is not private" in refused


def store_with_umask(path: str, umask: int) -> str:
    before = os.umask(umask)
    try:
        return store(path, "key", "value")
    finally:
        os.umask(before)


def test_the_private_folder_does_not_depend_on_the_umask(volume: Path) -> None:
    made(volume, 0o777)
    with Container(volume).start() as container:
        path = container.call(store_with_umask, PATH, 0o777)
        assert container.call(listed, VOLUME) == {".tuckbox-1000": (1000, "0700")}
        assert container.call(fetch, path, "key") == "value"


def warned(path: str) -> tuple[object, list[str]]:
    with pytest.warns(SeparateCacheWarning) as caught, Cache(path) as cache:
        return cache.path, [str(one.message) for one in caught]


def test_a_second_user_is_told_that_the_cache_is_not_shared(volume: Path) -> None:
    path = str(made(volume, 0o777) / "app.tuck")
    with Actor(user(1000, 0)) as one, Actor(user(1001, 0)) as other:
        one.call(store, path, "key", "value")  # Pytest makes an error of a warning.
        own, messages = other.call(warned, path)
        assert own == f"{volume}/.tuckbox-1001/app.tuck"
        assert messages == [
            f"{own} is for user 1001 alone, because others can replace files in {volume}; "
            "user 1000 has a cache of its own there. To share one, run all processes as one user, "
            "or pass group and a directory that only this group can write to"
        ]
        # A program that gives the path of the folder knows it.
        assert other.call(fetch, own, "key") is None


def pickled_and_back(path: str) -> Any:
    import pickle

    with Cache(path) as cache:
        cache["key"] = "value"
        with pickle.loads(pickle.dumps(cache)) as copy:
            return copy.path == cache.path and copy["key"]


def test_a_handle_in_an_own_folder_is_pickled(volume: Path) -> None:
    with Container(made(volume, 0o777)).start() as container:
        assert container.call(pickled_and_back, PATH) == "value"
