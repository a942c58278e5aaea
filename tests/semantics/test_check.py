"""``check`` on a file that was damaged while nobody used it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuckbox import Cache
from tuckbox.results import Loss

if TYPE_CHECKING:
    from pathlib import Path

MARK = b"a value that is found in the file"


def test_a_sound_cache_has_lost_nothing(tmp_path: Path) -> None:
    with Cache(tmp_path / "cache.tuck", size="1 MiB") as cache:
        cache["key"] = MARK
        report = cache.check()
        assert report.is_sound
        assert (report.entries, report.lost_entries, report.losses) == (1, 0, ())
        met = (
            report.segments_free
            + report.segments_log
            + report.segments_index
            + report.segments_body
            + report.segments_spare
            + report.segments_building
        )
        assert met == cache.stats().segments


def test_what_is_lost_is_named_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "cache.tuck"
    with Cache(path, size="1 MiB") as cache:
        cache["damaged"] = MARK
        cache["whole"] = 5
    data = bytearray(path.read_bytes())
    data[data.index(MARK)] ^= 1
    path.write_bytes(data)
    with Cache(path, size="1 MiB") as cache:
        assert cache.get("damaged") is None
        assert cache["whole"] == 5
        assert cache.stats().checksum_mismatches == 1
        report = cache.check()
        assert not report.is_sound
        assert report.losses == (Loss(0, 1, "its checksum does not match"),)
        assert (report.entries, report.lost_entries, report.damaged_entries) == (1, 1, 1)
        assert cache.stats().lost_entries == 1
        assert cache.check().is_sound
