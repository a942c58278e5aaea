"""What `manage.py check` says about a cache, without touching a file."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integrations.django.commands import Site
from tuckbox import Cache, places
from tuckbox.integrations.django_checks import check_cache
from tuckbox.integrations.django_settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Callable

# The number of a user without an entry in passwd.
OTHER = 54321

OPEN = "from django.core.cache import cache; print(cache.get('key'))"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory for a file."""
    folder = tmp_path / "caches"
    folder.mkdir(mode=0o700)
    return folder


@pytest.mark.parametrize(
    ("option", "own"),
    [
        ({"size": "16 MiB"}, "size 8388608, not 16777216"),
        ({"max_entries": 5}, "max_entries None, not 5"),
        ({"favour": "hits"}, "favour 'balanced', not 'hits'"),
        ({"after_power_cut": "discard"}, "after_power_cut 'keep', not 'discard'"),
        ({"evict": False}, "evict True, not False"),
    ],
)
def test_check_says_that_the_file_has_other_values_than_the_settings(
    tmp_path: Path, folder: Path, option: dict[str, object], own: str
) -> None:
    file = folder / "app.tuck"
    Cache(file, size="8 MiB").close()
    before = file.read_bytes(), file.stat().st_mtime_ns
    site = Site(tmp_path, LOCATION=str(file), OPTIONS=option)
    assert f"(tuckbox.W001) Cache 'default' has {own} as in OPTIONS" in site.manage("check")
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before


def test_check_finds_nothing_wrong_with_a_cache_as_configured(tmp_path: Path, folder: Path) -> None:
    file = folder / "app.tuck"
    options = {"size": "8 MiB", "max_entries": 500, "favour": "hits"}
    Cache(file, **options).close()
    assert "no issues" in Site(tmp_path, LOCATION=str(file), OPTIONS=options).manage("check")


def test_check_says_that_a_cache_cannot_be_opened(tmp_path: Path, folder: Path) -> None:
    site = Site(tmp_path, LOCATION=str(folder / "missing" / "app.tuck"))
    assert "(tuckbox.E001)" in site.manage("check", "--fail-level", "CRITICAL")
    (folder / "app.tuck").write_text("not a cache")
    (folder / "app.tuck").chmod(0o600)
    site = Site(tmp_path, LOCATION=str(folder / "app.tuck"))
    output = site.manage("check", "--fail-level", "CRITICAL")
    assert "(tuckbox.E001) Cache 'default' cannot be opened" in output
    assert "is not a Tuckbox cache" in output


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can look into the folders of others")
def test_root_is_told_that_the_workers_have_another_cache(tmp_path: Path) -> None:
    """As with ``sudo manage.py shell``."""
    site = Site(tmp_path, LOCATION="pages")
    site.manage("shell", "-c", OPEN)
    theirs = (site.memory / "tuckbox-0").rename(site.memory / f"tuckbox-{OTHER}")
    for path in (theirs, *theirs.iterdir()):
        os.chown(path, OTHER, OTHER)
    told = f"(tuckbox.W002) Cache 'default' of this user is not that of user {OTHER}"
    assert told in site.manage("check")
    output = site.manage("shell", "-c", OPEN)
    assert output.count(f"is not the cache of user {OTHER}") == 1
    assert "sudo -u USER" in output
    # A cache of another project is none of its business.
    for file in theirs.iterdir():
        file.rename(file.with_name("pages-0123456789abcdef.tuck"))
    assert str(OTHER) not in site.manage("check")
    assert str(OTHER) not in site.manage("shell", "-c", OPEN)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become other users")
def test_a_user_is_told_that_other_users_have_named_caches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with tempfile.TemporaryDirectory() as memory:
        os.chmod(memory, 0o755)
        theirs = Path(memory) / f"tuckbox-{OTHER}"
        theirs.mkdir(mode=0o700)
        os.chown(theirs, OTHER, OTHER)
        monkeypatch.setattr(places, "MEMORY", Path(memory))

        def messages() -> list[Any]:
            # As a command of user OTHER + 1.
            os.setuid(OTHER + 1)
            return list(check_cache("default", read_settings("pages", {})))

        (message,) = in_child(messages)
        assert message.id == "tuckbox.I001"
        assert str(OTHER) in message.msg


def in_child(work: Callable[[], Any]) -> Any:
    """The result of ``work`` in a forked child."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        try:
            sender.send(work())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert receiver.poll(), "the child failed"
    return receiver.recv()
