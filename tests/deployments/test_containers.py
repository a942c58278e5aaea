"""What is scarce in a container: `/dev/shm`, a root to write to, a list of users."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import yaml

from deployments.containers import VOLUME, Container, fetch, refusal, start, store
from deployments.services import (
    BROKER,
    FILES,
    SENDER,
    WORKER,
    free_port,
    page,
    wait_for,
    wait_until,
)
from reliability.actors import common_folder, demand, demand_mounts
from tuckbox import Cache

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHM = "/dev/shm/app.tuck"
FILLING = 400


@pytest.fixture
def volume() -> Iterator[Path]:
    demand("to act as other users", is_there=os.geteuid() == 0)
    demand_mounts()
    with common_folder() as folder:
        (folder / "volume").mkdir()
        os.chown(folder / "volume", 1000, 1000)
        yield folder / "volume"


def opened(path: str | None) -> tuple[int, list[str]]:
    """Return the size of a cache for which none is chosen, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with Cache(path) as cache:
            return cache.size, [f"{one.category.__name__}: {one.message}" for one in caught]


def fill(path: str) -> tuple[int, int, int]:
    """Store more than fits; return evictions, what is left of the last, and free bytes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cache = Cache(path)
    with cache:
        for number in range(FILLING):
            cache[number] = bytes(100_000)
        left = os.statvfs("/dev/shm")
        last = cache.get(FILLING - 1, b"")
        return cache.stats().evictions, len(last), left.f_bavail * left.f_frsize


def test_the_default_cache_leaves_half_of_dev_shm_to_others(volume: Path) -> None:
    with Container(volume).start() as container:
        size, messages = container.call(opened, SHM)
        assert size == 32 << 20
        assert messages == [
            f"LittleSpaceWarning: {SHM} has a size of 33,554,432 bytes, less than the default: its "
            "file system has space for only 67108864 bytes, and half of that is left to others; "
            "pass size, or make /dev/shm larger (docker run --shm-size=1g)"
        ]
        # The next process is told, too.
        assert container.call(opened, SHM) == (size, messages)
        evictions, last, free = container.call(fill, SHM)
        assert evictions > 0
        assert last == 100_000
        assert free >= 32 << 20


def test_a_larger_dev_shm_has_the_default_size_and_no_warning(volume: Path) -> None:
    with Container(volume, shm="size=128m").start() as container:
        assert container.call(opened, SHM) == (64 << 20, [])


def chosen(path: str, size: str) -> tuple[int, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with Cache(path, size=size) as cache:
            return cache.size, [str(one.message) for one in caught]


def test_a_chosen_size_is_taken_without_a_warning(volume: Path) -> None:
    with Container(volume).start() as container:
        assert container.call(chosen, SHM, "60 MiB") == (60 << 20, [])


def test_a_size_beyond_dev_shm_is_refused_with_the_remedy(volume: Path) -> None:
    with Container(volume).start() as container:
        refused = container.call(refusal, SHM, size="256 MiB")
        assert refused == (
            f"InvalidSize: size 268435456 bytes is too large for {SHM}: its file system has space "
            "for only 67108864 bytes; choose a smaller size, or make /dev/shm larger (docker run "
            "--shm-size=1g)"
        )


def test_a_dev_shm_that_others_have_filled_is_a_full_file_system(volume: Path) -> None:
    with Container(volume).start() as container:
        assert container.call(os.system, "head -c 60M /dev/zero > /dev/shm/others") == 0
        size, _ = container.call(opened, SHM)
        assert size == 32 << 20
        evictions, last, _ = container.call(fill, SHM)
        assert evictions > 0
        assert last == 100_000


def private() -> object:
    with Cache() as cache:
        cache["key"] = "value"
        return cache["key"]


def names_nobody() -> bool:
    import pwd

    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        return "HOME" not in os.environ
    return False


def test_a_user_without_a_name_and_a_home_has_every_kind_of_cache(volume: Path) -> None:
    with Container(volume).start() as container:
        assert container.call(names_nobody)
        assert container.call(private) == "value"
        small = f"{VOLUME}/app.tuck"
        assert container.call(store, small, "key", "value", size="1 MiB") == small
        assert container.call(store, SHM, "key", "value", size="1 MiB") == SHM
        assert container.call(fetch, SHM, "key") == "value"
        named = container.call(store, "pages", "key", "value", size="1 MiB")
        assert named == "/dev/shm/tuckbox-1000/pages"
        home = container.call(refusal, "~/app.tuck")
        assert home.startswith("InvalidPath: the home directory in '~/app.tuck' is unknown"), home


def test_a_read_only_root_is_refused_with_what_to_do(volume: Path) -> None:
    # Root, whom no rights stop.
    with Container(volume, user=0).start() as container:
        refused = container.call(refusal, "/var/cache/app.tuck")
        assert "Read-only file system" in refused
        assert "choose a path on another file system" in refused
        assert container.call(store, SHM, "key", "value", size="1 MiB") == SHM


def test_a_web_container_and_a_worker_container_share_a_volume(volume: Path) -> None:
    """The commands of `compose.yaml` and `kubernetes.yaml`, with files in place of Redis."""
    volume.chmod(0o777)
    (volume / "with_broker.py").write_text(BROKER)
    (volume / "broker").mkdir()
    (volume / "broker").chmod(0o777)
    port, path = free_port(), f"{VOLUME}/cache.tuck"
    environment = {"APP_CACHE": path, "TMPDIR": "/dev/shm", "BROKER_URL": "filesystem://"}
    environment["BROKER_FOLDER"] = f"{VOLUME}/broker"
    command = ("gunicorn", "--config", "gunicorn.conf.py", "--bind", f"127.0.0.1:{port}")
    try:
        with Container(volume).start() as web, Container(volume).start() as worker:
            web.call(start, *command, "app:application", **environment)
            worker.call(start, *WORKER, **environment)
            wait_for(port)
            assert [page(port, "/page").split(",")[0] for _ in range(2)] == ["visit 1", "visit 2"]
            worker.call(start, *SENDER, **environment)
            key = ("visits", "/page")
            wait_until(lambda: web.call(fetch, path, key) is None, "the task did not run")
            assert page(port, "/page").startswith("visit 1,")
    finally:
        for log in volume.glob("*.log"):
            sys.stdout.write(log.read_text())


@contextmanager
def running_server(command: str, port: int, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the Redis of `machines.yaml` on loopback."""
    program, *options = shlex.split(command)
    demand(f"to run {program}", is_there=shutil.which(program) is not None)
    own = ("--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder))
    with (folder / "redis.log").open("wb") as log:
        process = subprocess.Popen([program, *options, *own], stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_two_machines_have_redis_behind_their_caches(volume: Path) -> None:
    """The commands of `machines.yaml`: two containers, which share nothing, and Redis."""
    volume.chmod(0o777)
    services = yaml.safe_load((FILES / "machines.yaml").read_text())["services"]
    assert {"web-1", "web-2", "redis"} == set(services)
    server, *ports = (free_port() for _ in range(3))
    with (
        running_server(services["redis"]["command"], server, volume) as redis,
        Container(volume).start() as first,
        Container(volume).start() as second,
    ):
        try:
            for name, container, port in zip(("web-1", "web-2"), (first, second), ports):
                environment = dict(services[name]["environment"], TMPDIR="/dev/shm")
                assert environment["APP_SERVER"] == "redis://redis"
                environment["APP_SERVER"] = f"redis://127.0.0.1:{server}"
                bind = f"127.0.0.1:{port}"
                words = shlex.split(services[name]["command"].replace("0.0.0.0:8000", bind))
                container.call(start, *words, **environment)
            for port in ports:
                wait_for(port)
            made = page(ports[0], "/page")
            assert made.startswith("made at ")
            assert page(ports[1], "/page") == made
            again = page(ports[1], "/page?new")
            assert again != made
            wait_until(lambda: page(ports[0], "/page") == again, "the machine was not told")
            # Nearly all reads need no server, and the others do without.
            redis.kill()
            redis.wait()
            assert page(ports[0], "/page").startswith("made at ")
            assert page(ports[1], "/other").startswith("made at ")
        finally:
            for log in volume.glob("*.log"):
                sys.stdout.write(log.read_text())
