"""Two releases with different file formats use one path at the same time: a rolling deploy."""

from __future__ import annotations

import logging
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integrations.django.commands import Site
from tuckbox import Cache
from tuckbox.errors import CacheCorrupt, VersionMismatch
from tuckbox.integrations import siblings

if TYPE_CHECKING:
    from collections.abc import Callable

    from tuckbox.integrations.django import TuckboxCache

    Opened = Callable[..., TuckboxCache]

GOLDEN = Path(__file__).parents[3] / "crates" / "engine" / "tests" / "golden"


@pytest.fixture(params=["another layout", "a later format"])
def theirs(request: pytest.FixtureRequest, location: str) -> bytes:
    """The file of another release, at the path of the settings."""
    if request.param == "another layout":
        content = (GOLDEN / "layout-before-1-64k.tuck").read_bytes()
    else:
        # FORMAT_VERSION is the word at 8.
        content = bytearray((GOLDEN / "format-1-64k.tuck").read_bytes())
        content[8] = 99
    Path(location).write_bytes(content)
    Path(location).chmod(0o600)
    with pytest.raises(VersionMismatch):
        Cache(location)
    return bytes(content)


def test_a_release_with_another_format_uses_a_file_beside(
    opened: Opened, location: str, theirs: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    backend = opened(OPTIONS={"on_error": "raise"})
    with caplog.at_level(logging.WARNING):
        backend.set("key", "value", None)
    assert backend.get("key") == "value"
    assert backend._cache.path == f"{location}.format-{Cache.file_format}"
    assert location in caplog.text
    # The other release goes on with its file.
    assert Path(location).read_bytes() == theirs


@pytest.mark.parametrize("mode", [0o700, 0o777])
def test_all_processes_of_a_release_use_the_same_file(
    opened: Opened, tmp_path: Path, mode: int
) -> None:
    folder = tmp_path / "volume"
    folder.mkdir()
    folder.chmod(mode)
    location = str(folder / "app.tuck")
    with Cache(location) as cache:
        theirs = Path(str(cache.path))
    shutil.copy(GOLDEN / "layout-before-1-64k.tuck", theirs)
    backend = opened(LOCATION=location)
    backend.set("key", "value", None)
    # The other release has ended, and somebody removes its file.
    theirs.unlink()
    show = "from tuckbox.integrations.django import TuckboxCache as T; " + (
        f"print(T({location!r}, {{}}).get('key'))"
    )
    assert "value" in Site(tmp_path, LOCATION=location).manage("shell", "-c", show)
    assert not theirs.exists()


def test_going_back_to_the_earlier_release_finds_its_entries(
    opened: Opened, location: str, theirs: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened().set("key", "of the later release")
    # As the earlier release, whose file is at the path: here, a file of this format.
    Path(location).unlink()
    with Cache(location) as cache:
        cache.set(":1:key", "of the earlier release")
    monkeypatch.setattr(siblings, "sibling", lambda path: f"{path}.format-of-the-earlier-release")
    assert opened(OPTIONS={"lock_timeout": 2}).get("key") == "of the earlier release"


def test_check_says_that_another_release_uses_the_path(
    location: str, theirs: bytes, tmp_path: Path
) -> None:
    site = Site(tmp_path, LOCATION=location)
    assert "(tuckbox.I002)" in site.manage("check")
    assert Path(location).read_bytes() == theirs
    assert not Path(siblings.sibling(location)).exists()


def test_a_damaged_file_is_not_taken_for_that_of_another_release(
    opened: Opened, location: str
) -> None:
    shutil.copy(GOLDEN / "format-1-64k.tuck", location)
    Path(location).chmod(0o600)
    with open(location, "r+b") as file:
        # SIZE_BYTES, which the header's checksum covers.
        file.seek(80)
        file.write(b"\xff")
    with pytest.raises(CacheCorrupt):
        opened(OPTIONS={"on_error": "raise"}).get("key")


def test_keys_of_an_iterator_are_deleted_when_another_file_is_opened(
    opened: Opened, location: str
) -> None:
    backend = opened(OPTIONS={"on_error": "raise"})
    backend.set("other", 1)
    with Cache(siblings.sibling(location)) as own:
        own.set(":1:key", "old")
    theirs = Path(f"{location}.theirs")
    shutil.copy(GOLDEN / "layout-before-1-64k.tuck", theirs)
    theirs.chmod(0o600)
    theirs.rename(location)
    time.sleep(1.1)  # A write looks for its file once a second.
    backend.delete_many(iter(["key"]))
    assert backend._cache.path == siblings.sibling(location)
    assert backend.get("key") is None
