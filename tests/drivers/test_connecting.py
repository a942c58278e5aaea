"""`connect`: a cache by the URL of its place."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from tuckbox import Cache, connect, memory
from tuckbox.errors import ClientMissing, InvalidArgument, Unreachable
from tuckbox.remote import cache as remote

if TYPE_CHECKING:
    from pathlib import Path


def test_a_name_or_a_path_is_a_shared_cache(tmp_path: Path, memory: Path) -> None:
    with connect("shared:pages?size=4MiB") as named, Cache("pages") as same:
        named["k"] = 1
        assert (same["k"], same.size) == (1, 4 << 20)
    with connect(f"shared://{tmp_path}/app.tuck?max_entries=10&favour=hits") as file:
        assert (file.path, file.max_entries, file.favour) == (
            str(tmp_path / "app.tuck"),
            10,
            "hits",
        )
    with connect("shared:") as private:
        assert private.path is None


def test_memory_is_in_this_process() -> None:
    cache: Any = connect("memory:connected?size=1MB")
    assert type(cache) is memory.Cache
    cache["k"] = 1
    assert memory.Cache("connected")["k"] == 1
    del memory.cache._named["connected"]


@pytest.mark.parametrize("scheme", ["file://{}/entries", "sqlite:///{}/app.db"])
def test_a_folder_or_a_table_keeps_entries(tmp_path: Path, scheme: str) -> None:
    url = scheme.format(tmp_path)
    with connect(url) as cache:
        assert type(cache) is remote.Cache
        cache.set("user:42", {"name": "Ada"}, ttl=60, tags=["users"])
    with connect(url) as again, connect(url, prefix="other") as other:
        assert again["user:42"] == {"name": "Ada"}
        assert "user:42" not in other
        other.clear()
        assert list(again) == ["user:42"]


def test_null_keeps_nothing() -> None:
    with connect("null://") as cache:
        cache["k"] = 1
        assert "k" not in cache


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("rediss", "the scheme 'rediss' is not known|has no host|scheme"),
        ("http://10.0.0.1", "the scheme 'http' is not known; use one of: shared:pages"),
        ("shared://host/path", "names no cache; write shared:name"),
        ("shared:/path", "names no cache"),
        ("shared:pages?colour=red", "unknown option 'colour'"),
        ("shared:pages?max_entries=many", "unknown option 'max_entries', or a wrong value"),
        ("redis://host?colour=red", "unknown option 'colour'"),
        ("redis://host:port", "wrong port"),
        (None, "a URL must be a str"),
        (b"redis://host", "a URL must be a str"),
    ],
)
def test_a_wrong_url_says_what_is_wrong(url: Any, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        connect(url)


def test_a_password_is_in_no_message() -> None:
    with pytest.raises(InvalidArgument) as caught:
        connect("redis://user:geheim@host:0")
    assert "geheim" not in str(caught.value)
    with connect("redis://user:geheim@127.0.0.1:1/0?timeout_s=0.2") as cache:
        assert "geheim" not in repr(cache)
        with pytest.raises(Unreachable) as unreachable:
            cache.get("k")
        assert "geheim" not in str(unreachable.value)


def test_private_pickles_need_a_private_file() -> None:
    with pytest.raises(InvalidArgument, match='pickle="signed" with a secret'):
        connect("null://", pickle="private")


@pytest.mark.parametrize("names", [{"expire": 60}, {"url_": 1}, {"size": "1GB"}])
def test_a_wrong_parameter_is_refused(names: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"connect\(\) got an unexpected keyword argument"):
        connect("null://", **names)


@pytest.mark.parametrize(
    ("url", "extra"),
    [("redis://a", "redis"), ("memcached://a", "memcached"), ("sqlite:////a", "sql")],
)
def test_a_missing_client_says_what_to_install(url: str, extra: str) -> None:
    program = f"""
        import sys
        for name in ("redis", "pymemcache", "sqlalchemy", "pymongo"):
            sys.modules[name] = None
        import tuckbox
        try:
            cache = tuckbox.connect({url!r})
            cache.get("k")
        except tuckbox.errors.ClientMissing as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True, text=True, check=True, timeout=50,
    )  # fmt: skip
    assert f'pip install "tuckbox[{extra}]"' in done.stdout, done.stderr
    assert issubclass(ClientMissing, ImportError)
