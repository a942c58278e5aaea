"""What a project's commands do with its cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from integrations.django.commands import Site

if TYPE_CHECKING:
    from pathlib import Path

USE = (
    "from django.core.cache import cache; cache.set('key', 'value', None); print(cache.get('key'))"
)


@pytest.mark.parametrize("place", ["a path", "a name"])
def test_check_and_migrate_create_no_file(tmp_path: Path, place: str) -> None:
    folder = tmp_path / "caches"
    folder.mkdir(mode=0o700)
    site = Site(tmp_path, LOCATION=str(folder / "cache.tuck") if place == "a path" else "pages")
    site.manage("check", "--deploy")
    site.manage("migrate")
    assert not [*folder.iterdir(), *site.memory.iterdir()]
    assert "value" in site.manage("shell", "-c", USE)
    assert [*folder.iterdir(), *site.memory.rglob("*.tuck")]
