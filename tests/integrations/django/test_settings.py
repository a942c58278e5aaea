"""What the settings of a cache mean, and which are refused."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.core.cache import caches
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from integrations.django import project
from tuckbox import places
from tuckbox.errors import AccessDenied, DirectoryMissing, SizeMismatchWarning
from tuckbox.integrations.django import TuckboxCache

if TYPE_CHECKING:
    from collections.abc import Callable

    Opened = Callable[..., TuckboxCache]


RAISES = {"on_error": "raise"}


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"OPTIONS": {"SIZE": "1 GB"}}, "OPTIONS .* has unknown names: 'SIZE'; valid names are"),
        ({"OPTIONS": {"max_entrys": 5, "shards": 8}}, "'max_entrys', 'shards'"),
        ({"TIMOUT": 60}, "CACHES .* has unknown names: 'TIMOUT'"),
        ({"TIMEOUT": "soon"}, "TIMEOUT .* not 'soon'"),
        ({"OPTIONS": {"size": "much"}}, "size"),
        ({"OPTIONS": {"size": 17}}, "too small"),
        ({"OPTIONS": {"max_entries": 0}}, "max_entries"),
        ({"OPTIONS": {"lock_timeout": "1"}}, "lock_timeout"),
        ({"OPTIONS": {"group": "no-such-group"}}, "group 'no-such-group' does not exist"),
        ({"LOCATION": "pages", "OPTIONS": {"group": 0}}, "group .* needs an absolute path"),
        ({"OPTIONS": {"size": ["1 GB"]}}, "size .* cannot be \\['1 GB'\\]"),
        ({"OPTIONS": {"evict": "no"}}, "evict must be True, False or None"),
        ({"OPTIONS": {"pickle": True}}, "'signed', 'never', not True"),
        ({"OPTIONS": {"MAX_ENTRIES": 0}}, "MAX_ENTRIES .* positive"),
        ({"OPTIONS": {"MAX_ENTRIES": "many"}}, "MAX_ENTRIES .* not 'many'"),
        ({"OPTIONS": {"CULL_FREQUENCY": -1}}, "CULL_FREQUENCY .* negative"),
        ({"OPTIONS": {"MAX_ENTRIES": 5, "max_entries": 5}}, "give one"),
        ({"LOCATION": "cache/app.tuck"}, "absolute path"),
        ({"LOCATION": "../app"}, "absolute path"),
        ({"LOCATION": ".hidden"}, "absolute path"),
        ({"LOCATION": Path("app.tuck") / "x"}, "absolute path"),
        ({"LOCATION": ["a", "b"]}, "one path, not list"),
    ],
)
def test_what_makes_no_sense_is_refused_before_a_file_is_made(
    opened: Opened, location: str, params: dict[str, Any], told: str
) -> None:
    with pytest.raises(ImproperlyConfigured, match=told):
        opened(**params)
    assert not Path(location).exists()


def test_options_are_those_of_cache(opened: Opened) -> None:
    group = os.getegid()
    options = {"size": "8 MiB", "max_entries": 500, "lock_timeout": 3, "group": group}
    cache = opened(OPTIONS={**options, "evict": False})._cache
    assert not cache.evicts
    assert (cache.size, cache.max_entries, cache.lock_timeout) == (8 << 20, 500, 3.0)
    assert cache.group == group


def test_djangos_settings_may_be_strings_as_in_django(opened: Opened) -> None:
    backend = opened(TIMEOUT="60", OPTIONS={"MAX_ENTRIES": "30", "CULL_FREQUENCY": "2"})
    assert (backend.default_timeout, backend._max_entries, backend._cull_frequency) == (60, 30, 2)


def test_without_max_entries_there_is_no_limit_but_size(opened: Opened) -> None:
    backend = opened(OPTIONS={"CULL_FREQUENCY": 2})
    backend.set_many({str(number): number for number in range(1000)})
    assert len(backend.get_many(map(str, range(1000)))) == 1000


def test_of_two_sizes_in_use_the_first_is_kept_with_a_warning(opened: Opened) -> None:
    opened(OPTIONS={"size": "8 MiB"}).set("key", "value")
    backend = opened(OPTIONS={"size": "16 MiB"})
    with pytest.warns(SizeMismatchWarning):
        assert backend.get("key") == "value"
    assert backend._cache.size == 8 << 20


def test_a_path_may_be_a_path(opened: Opened, location: str) -> None:
    assert opened(LOCATION=Path(location))._cache.path == location


def test_a_directory_must_be_there(opened: Opened, tmp_path: Path) -> None:
    with pytest.raises(DirectoryMissing):
        opened(LOCATION=str(tmp_path / "missing" / "app.tuck"), OPTIONS=RAISES).get("key")


def test_a_name_is_a_file_that_only_this_user_can_reach(opened: Opened, memory: Path) -> None:
    file = Path(str(opened(LOCATION="pages")._cache.path))
    assert file.parent == memory / f"tuckbox-{os.geteuid()}"
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_names_belong_to_the_project(opened: Opened, memory: Path) -> None:
    paths = [opened(LOCATION=name)._cache.path for name in ("", "default", "pages", "pages")]
    assert paths[0] == paths[1] != paths[2] == paths[3]
    with override_settings(SECRET_KEY="that of another project"):
        assert opened(LOCATION="pages")._cache.path not in paths
    assert all("tuckbox" not in Path(str(path)).name for path in paths)


def test_named_files_lie_in_memory() -> None:
    with override_settings(SECRET_KEY=f"of process {os.getpid()} alone"):
        backend = TuckboxCache("", {})
    path = Path(str(backend._cache.path))
    try:
        assert path.parent.parent == Path("/dev/shm")
        assert path.name.startswith("default-")
        backend.set("key", "value")
        assert backend.get("key") == "value"
    finally:
        backend._cache.close()
        path.unlink()


@pytest.mark.parametrize("kind", ["open to others", "a link", "a file", "another user's"])
def test_a_folder_that_is_not_private_is_not_used(opened: Opened, memory: Path, kind: str) -> None:
    folder = memory / f"tuckbox-{os.geteuid()}"
    if kind == "a link":
        (memory / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(memory / "elsewhere")
    elif kind == "a file":
        folder.touch(mode=0o600)
    else:
        folder.mkdir(mode=0o700)
        if kind == "open to others":
            folder.chmod(0o750)
        elif os.geteuid() == 0:
            os.chown(folder, 12345, -1)
        else:
            pytest.skip("only root can give a folder away")
    with pytest.raises(AccessDenied, match="mode 0700"):
        opened(LOCATION="pages", OPTIONS=RAISES).get("key")


def test_a_machine_without_a_place_in_memory_is_told(
    opened: Opened, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "MEMORY", memory / "missing")
    with pytest.raises(DirectoryMissing, match="an absolute path instead of a name"):
        opened(LOCATION="pages", OPTIONS=RAISES).get("key")


def test_all_threads_and_aliases_share_one_handle(location: str) -> None:
    settings = {"BACKEND": project.BACKEND, "LOCATION": location}
    with override_settings(CACHES={"default": settings, "v2": {**settings, "VERSION": 2}}):
        backends = [caches["default"], caches["v2"]]
        thread = threading.Thread(target=lambda: backends.append(caches["default"]))
        thread.start()
        thread.join()
        assert len(set(map(id, backends))) == 3
        assert len({id(backend._opened()) for backend in backends}) == 1
        backends[0].close()
        backends[1].set("key", "value")
        assert backends[2].get("key", version=2) == "value"
        backends[0]._cache.close()


def test_who_opens_a_file_that_this_program_closed_opens_it_anew(opened: Opened) -> None:
    opened()._cache.close()
    backend = opened()
    backend.set("key", "value")
    assert backend.get("key") == "value"
