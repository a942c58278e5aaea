"""The rows detect wrong answers of Tuckbox or of a peer."""

from __future__ import annotations

import zlib
from types import ModuleType

import pytest
from tuckbox import Cache

from benches import data
from benches.row import Conditions
from benches.rows import (
    ROWS,
    UnknownRowError,
    choose,
    s01_get,
    s01b_kept,
    s02_miss,
    s03_set,
    s06_codec,
    s07_large,
    s08_growth,
    s12_open,
    s13_memory,
    s14_many,
    s15_full,
    s15b_python,
    s18_random,
)
from rig.stamps import WrongAnswerError


class Liar(Cache):
    """A cache that is wrong about one key, in one kind of answer."""

    key = data.keys(1, first=77)[0]

    def get(self, key, default=None):  # type: ignore[no-untyped-def]
        found = super().get(key, default)
        return bytes(160) if key == self.key and found is not None else found


class Hoarder(Cache):
    """A cache that returns values nobody stored."""

    def get(self, key, default=None):  # type: ignore[no-untyped-def]
        return super().get(key, default) or b"more"


class Forgetter(Cache):
    """A cache that drops each set of one key in twenty."""

    def set(self, key, *arguments, **terms):  # type: ignore[no-untyped-def]
        if zlib.crc32(key.encode()) % 20 != 0:
            super().set(key, *arguments, **terms)


class Loser(Cache):
    """A cache whose batches lack an entry."""

    def get_many(self, keys):  # type: ignore[no-untyped-def]
        return dict(list(super().get_many(keys).items())[:-1])


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer entries where there are many, and a peer that need not be installed."""
    monkeypatch.setattr(s06_codec, "ENTRIES", 1_000)
    monkeypatch.setattr(s07_large, "VALUE_BYTES", 100_000)
    monkeypatch.setattr(s08_growth, "COUNTS", (1_000,))
    monkeypatch.setattr(s12_open, "ENTRIES_QUICK", 5_000)
    monkeypatch.setattr(s13_memory, "ENTRIES", 2_000)
    monkeypatch.setattr(s13_memory, "PEERS", ("sqlite",))
    monkeypatch.setattr(s15_full, "PEER", "sqlite")
    monkeypatch.setattr(s15_full, "FILLED", 1_000)
    monkeypatch.setattr(s15_full, "SIZES_QUICK", (1 << 20,))
    monkeypatch.setattr(s15b_python, "SIZE_QUICK", 1 << 20)
    monkeypatch.setattr(s15b_python, "STORED_NATIVE", 10_000)
    # The native contestants need not be installed.
    monkeypatch.setattr(s15b_python, "NATIVE", "tuckbox")
    monkeypatch.setattr(s15b_python, "PEERS", ())
    monkeypatch.setattr(s18_random, "COUNT", 1_000)


@pytest.mark.parametrize(
    ("module", "wrong"),
    [
        (s01_get, Liar),
        (s01b_kept, Liar),
        (s02_miss, Hoarder),
        (s03_set, Liar),
        (s06_codec, Liar),
        (s07_large, Forgetter),
        (s08_growth, Liar),
        (s12_open, Forgetter),
        (s13_memory, Liar),
        (s13_memory, Forgetter),
        (s14_many, Liar),
        (s14_many, Loser),
        (s15_full, Liar),
        (s15_full, Forgetter),
        (s18_random, Liar),
    ],
)
def test_a_wrong_answer_fails_the_row(
    conditions: Conditions, monkeypatch: pytest.MonkeyPatch, module: ModuleType, wrong: type[Cache]
) -> None:
    # S18's caches are opened by S8.
    monkeypatch.setattr(s08_growth if module is s18_random else module, "Cache", wrong)
    with pytest.raises(WrongAnswerError, match="Tuckbox"):
        module.ROW.measure(conditions)


@pytest.mark.parametrize(
    "module",
    [
        s01_get,
        s01b_kept,
        s02_miss,
        s03_set,
        s06_codec,
        s07_large,
        s08_growth,
        s12_open,
        s13_memory,
        s14_many,
        s15_full,
        s15b_python,
        s18_random,
    ],
)
def test_right_answers_make_figures_of_all_rounds(
    conditions: Conditions, module: ModuleType
) -> None:
    figures = module.ROW.measure(conditions)
    assert figures
    assert all(
        len(figure.ours) == conditions.rounds
        for figure in figures
        # The number of entries is measured once.
        if figure.unit != "entries"
    )
    assert any(figure.goal is not None for figure in figures)


def test_each_row_is_there_once_and_can_be_chosen() -> None:
    ids = [row.id for row in ROWS]
    assert len(set(ids)) == len(ids)
    assert [row.id for row in choose(["S3", "S1"])] == ["S1", "S3"]
    assert choose([]) == list(ROWS)
    with pytest.raises(UnknownRowError, match="S1"):
        choose(["S99"])
