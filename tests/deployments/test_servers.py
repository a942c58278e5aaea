"""gunicorn, uWSGI and Celery with the files of the guide: their workers share one cache."""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING

import pytest

from deployments.services import (
    BROKER,
    FILES,
    SENDER,
    START_TIMEOUT_S,
    WORKER,
    free_port,
    page,
    running,
    wait_for,
    wait_until,
)
from tuckbox import Cache

if TYPE_CHECKING:
    from pathlib import Path

REQUESTS = 60
WORKERS = {"gunicorn": 2, "uWSGI": 1}
"""uWSGI hangs if SIGTERM comes while it restarts a worker. One worker is restarted after a known
request, which is not the last."""
REQUESTS_PER_WORKER = 25
SERVERS = {
    "gunicorn": [
        *("gunicorn", "--config", "gunicorn.conf.py", "--bind", "127.0.0.1:{port}"),
        *("--workers", "{workers}", "--max-requests", "{requests}", "--max-requests-jitter", "0"),
        # A worker that is just being started may miss SIGTERM. It is killed after this time.
        *("--graceful-timeout", "5"),
        "app:application",
    ],
    "uWSGI": [
        *("uwsgi", "--ini", "uwsgi.ini", "--http-socket", "127.0.0.1:{port}"),
        *("--processes", "{workers}", "--max-requests", "{requests}", "--min-worker-lifetime", "0"),
    ],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the guide's files, in which Python may keep what it compiles."""
    return shutil.copytree(FILES, tmp_path / "app")


@pytest.fixture
def environment(path: str) -> dict[str, str]:
    return {"APP_CACHE": path}


def command_of(name: str, port: int, requests_per_worker: int = 0) -> list[str]:
    values = {"port": port, "workers": WORKERS[name], "requests": requests_per_worker}
    return [part.format(**values) for part in SERVERS[name]]


def visit(port: int, count: int) -> tuple[list[int], set[int]]:
    """Return the counts that a page shows, and the workers that showed them."""
    found = [re.findall("[0-9]+", page(port, "/page")) for _ in range(count)]
    return [int(visits) for visits, _ in found], {int(worker) for _, worker in found}


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("preload", [True, False], ids=["preload", "no preload"])
def test_workers_share_the_cache_and_are_restarted(
    name: str, preload: bool, folder: Path, path: str, environment: dict[str, str]
) -> None:
    port = free_port()
    command = command_of(name, port, REQUESTS_PER_WORKER)
    if not preload and name == "gunicorn":
        config = folder / "gunicorn.conf.py"
        config.write_text(config.read_text().replace("preload_app = True", ""))
    elif not preload:
        command.append("--lazy-apps")
    with running(command, folder, environment) as server:
        wait_for(port, server)
        counts, workers = visit(port, REQUESTS)
        assert counts == list(range(1, REQUESTS + 1))
        # Each worker was restarted, and its successor continued to count.
        assert len(workers) > WORKERS[name]
        with Cache(path) as cache:
            assert cache["visits", "/page"] == REQUESTS
    with Cache(path) as cache:
        assert cache["visits", "/page"] == REQUESTS
        assert cache.check().is_sound


def test_a_killed_worker_loses_nothing(
    folder: Path, path: str, environment: dict[str, str]
) -> None:
    port = free_port()
    with running(command_of("gunicorn", port), folder, environment) as server:
        wait_for(port, server)
        _, workers = visit(port, 10)
        os.kill(min(workers), 9)
        # The other worker answers until gunicorn has started a new one. A connection that the
        # killed worker had accepted would be lost, but there is none.
        counts, _ = visit(port, 10)
        assert counts == list(range(11, 21))


def test_celery_shares_the_cache_with_the_web_application(
    folder: Path, path: str, environment: dict[str, str], tmp_path: Path
) -> None:
    (folder / "with_broker.py").write_text(BROKER)
    broker = tmp_path / "broker"
    broker.mkdir()
    environment |= {"BROKER_URL": "filesystem://", "BROKER_FOLDER": str(broker)}
    port = free_port()
    with (
        running([*WORKER], folder, environment),
        running(command_of("gunicorn", port), folder, environment) as server,
        Cache(path) as cache,
    ):
        wait_for(port, server)
        assert visit(port, 2)[0] == [1, 2]
        with running([*SENDER], folder, environment) as sender:
            sender.wait(START_TIMEOUT_S)
        wait_until(lambda: ("visits", "/page") not in cache, "the task did not run")
        assert visit(port, 1)[0] == [1]
