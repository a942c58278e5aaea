"""The overview: contenders detect wrong answers, and the table says why a figure is missing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from benches import languages, summary
from benches.contender import Contender, opening
from benches.data import keys, values
from benches.languages import Phase, Plan, hosted
from benches.row import Conditions, Figure
from benches.rows import overview
from benches.tests.conftest import TEST_CONTESTANTS
from benches.tests.synthetic import figure, run
from benches.tests.synthetic import record as record_of
from benches.turns import Turn, take_turns
from lab import stream
from lab.hosts.python.contract import Store
from lab.peers import PeerMissingError, opened, opener
from lab.runner.catalogue import Contestant, contestants
from rig.stamps import WrongAnswerError

COUNT = 300


def entries() -> dict[str, object]:
    return dict(zip(keys(COUNT), values(COUNT), strict=True))


def store_of(held: dict[str, object]) -> Store:
    """Return a store of a dict, with every operation."""

    def incr(key: str) -> object:
        held[key] += 1  # type: ignore[operator]
        return held[key]

    return Store(
        get=held.get,
        set=held.__setitem__,
        delete=lambda key: held.pop(key, None) is not None,
        close=held.clear,
        incr=incr,
        get_many=lambda keys: {key: held[key] for key in keys if key in held},
    )


TURNS = (
    Contender.get,
    Contender.get_missing,
    Contender.get_many,
    Contender.overwrite,
    Contender.set_new,
    Contender.delete,
    Contender.incr,
)


@pytest.mark.parametrize("turn", TURNS)
def test_right_answers_pass(conditions: Conditions, turn: Callable[[Contender], Turn]) -> None:
    stored: dict[str, object] = (
        dict.fromkeys(keys(COUNT), 0) if turn is Contender.incr else entries()
    )
    contender = Contender("a store", store_of({}), stored, 200)
    (samples,) = take_turns(conditions, [turn(contender)])
    assert len(samples) == conditions.rounds


def not_what_was_stored(store: Store) -> Store:
    return dataclasses.replace(store, get=lambda key: store.get(key) and b"x" * 160)


def inventing(store: Store) -> Store:
    return dataclasses.replace(store, get=lambda key: store.get(key) or b"x" * 160)


def lacking_one(store: Store) -> Store:
    assert store.get_many is not None
    get_many = store.get_many
    return dataclasses.replace(store, get_many=lambda keys: get_many(keys[1:]))


def refusing(store: Store) -> Store:
    return dataclasses.replace(store, set=lambda _key, _value: False)


def undeleting(store: Store) -> Store:
    return dataclasses.replace(store, delete=lambda _key: True)


def adding_two(store: Store) -> Store:
    assert store.incr is not None
    incr = store.incr
    return dataclasses.replace(store, incr=lambda key: (incr(key), incr(key))[1])


@pytest.mark.parametrize(
    ("turn", "wrong"),
    [
        (Contender.get, not_what_was_stored),
        (Contender.get, refusing),
        (Contender.get_missing, inventing),
        (Contender.get_many, lacking_one),
        (Contender.get_many, refusing),
        (Contender.overwrite, not_what_was_stored),
        (Contender.set_new, not_what_was_stored),
        (Contender.set_new, refusing),
        (Contender.delete, undeleting),
        (Contender.incr, adding_two),
    ],
)
def test_a_wrong_answer_fails_the_row(
    conditions: Conditions,
    turn: Callable[[Contender], Turn],
    wrong: Callable[[Store], Store],
) -> None:
    stored: dict[str, object] = (
        dict.fromkeys(keys(COUNT), 0) if turn is Contender.incr else entries()
    )
    contender = Contender("a wrong store", wrong(store_of({})), stored, 200)
    with pytest.raises(WrongAnswerError, match="a wrong store"):
        take_turns(conditions, [turn(contender)])


def test_an_overwrite_that_was_dropped_is_found(conditions: Conditions) -> None:
    held: dict[str, object] = {}
    contender = Contender("a forgetful store", store_of(held), entries(), 200)
    turn = contender.overwrite()
    dropping = dataclasses.replace(turn, work=lambda _given: None)
    with pytest.raises(WrongAnswerError, match="a forgetful store"):
        take_turns(conditions, [dropping])


def test_a_store_that_is_not_full_or_keeps_nothing_is_refused() -> None:
    stored = entries()
    full: dict[str, object] = {}
    contender = Contender("a store", store_of(full), stored, 1)
    with pytest.raises(WrongAnswerError, match="300 of 300 entries: it is not full"):
        contender.require_full()
    del full[next(iter(full))]
    contender.require_full()
    full.clear()
    with pytest.raises(WrongAnswerError, match="0 of 300 entries"):
        contender.require_full()


@pytest.mark.parametrize("row", ["tuckbox", "sqlite"])
def test_a_store_is_opened_as_it_is(conditions: Conditions, tmp_path: Path, row: str) -> None:
    stored = entries()
    with opened(row, tmp_path) as peer:
        Contender(peer.title, peer.store, stored, 1)
    open_store = partial(opener(row), tmp_path)
    (samples,) = take_turns(conditions, [opening(open_store, row, stored)])
    assert len(samples) == conditions.rounds
    wrong = {**dict.fromkeys(stored, b"another")}
    with pytest.raises(WrongAnswerError, match=row):
        take_turns(conditions, [opening(open_store, row, wrong)])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few entries, SQLite and a dict in place of the peers, and Python in place of PHP."""
    monkeypatch.setattr(overview, "ENTRIES", COUNT)
    monkeypatch.setattr(overview, "_FEW", 100)
    stands_in = {"Tuckbox": "tuckbox", "dict": "dict:shared", "DiskCache": "sqlite"}
    monkeypatch.setattr(overview, "CONTESTANTS", {**stands_in, "APCu": "dict:copied"})
    monkeypatch.setattr(overview, "COLUMNS", (*stands_in, "APCu"))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("what", "peers"),
    [
        ("get, 160 B", ["dict", "SQLite", "Python dict"]),
        ("get, missing key", ["dict", "SQLite", "Python dict"]),
        ("set, overwrite, 160 B", ["dict", "SQLite", "Python dict"]),
        ("delete", ["dict", "SQLite", "Python dict"]),
        ("open, first get", ["SQLite"]),
    ],
)
def test_all_contestants_take_turns_in_every_round(
    conditions: Conditions, monkeypatch: pytest.MonkeyPatch, what: str, peers: list[str]
) -> None:
    (one,) = (operation for operation in overview.OPERATIONS if operation.what == what)
    monkeypatch.setattr(overview, "OPERATIONS", (dataclasses.replace(one, entries=COUNT),))
    figures = overview.measure(conditions)
    assert len(figures) == len(peers)
    assert all(map(str.startswith, (figure.peer for figure in figures), peers))
    assert all(len(figure.ours) == len(figure.theirs) == conditions.rounds for figure in figures)


@pytest.mark.usefixtures("small")
def test_a_peer_that_is_not_installed_is_left_out_and_named_once(
    conditions: Conditions, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {**contestants(), **contestants(TEST_CONTESTANTS)}
    monkeypatch.setattr(languages, "contestants", lambda: known)
    stands_in = {"Tuckbox": "tuckbox", "dict": "dict:shared", "APCu": "missing"}
    monkeypatch.setattr(overview, "CONTESTANTS", stands_in)
    monkeypatch.setattr(overview, "COLUMNS", tuple(stands_in))
    two = [dataclasses.replace(one, entries=COUNT) for one in overview.OPERATIONS[:2]]
    monkeypatch.setattr(overview, "OPERATIONS", tuple(two))
    told: list[str] = []
    figures = overview.measure(dataclasses.replace(conditions, not_measured=told.append))
    assert [figure.peer for figure in figures] == ["dict", "dict"]
    (phrase,) = told
    assert "missing is not installed" in phrase


def test_a_host_whose_misses_are_not_those_of_its_plan_is_found_out(tmp_path: Path) -> None:
    there, absent = range(COUNT), range(COUNT, 2 * COUNT)
    fill = Phase(stream.SET, there, 160)

    def run_of(name: str, phase: Phase) -> float:
        folder = tmp_path / name
        folder.mkdir(0o700)
        with hosted("dict:copied", folder, Plan(2 * COUNT, [fill], [[phase]])) as one:
            return one.run(1)

    assert run_of("there", Phase(stream.GET, there)) > 0
    assert run_of("absent", Phase(stream.GET, absent, misses="all")) > 0
    assert run_of("half", Phase(stream.GET, range(COUNT // 2, COUNT + 1), misses="some")) > 0
    for name, phase in (
        ("absent, wanted", Phase(stream.GET, absent)),
        ("there, unwanted", Phase(stream.GET, there, misses="all")),
        ("there, not evicted", Phase(stream.GET, there, misses="some")),
        ("absent, all evicted", Phase(stream.GET, absent, misses="some")),
    ):
        with pytest.raises(WrongAnswerError, match="should miss"):
            run_of(name, phase)


def test_a_batch_of_gets_is_verified_key_by_key(tmp_path: Path) -> None:
    fill = [Phase(stream.SET, range(COUNT), 160)]

    def run_of(name: str, phase: Phase) -> float:
        folder = tmp_path / name
        folder.mkdir(0o700)
        with hosted("php_array", folder, Plan(2 * COUNT, fill, [[phase]])) as one:
            return one.run(1)

    try:
        assert run_of("there", Phase(stream.GET, range(COUNT), batch=100)) > 0
    except PeerMissingError as error:
        pytest.skip(str(error))
    with pytest.raises(WrongAnswerError, match="1 missed"):
        run_of("one absent", Phase(stream.GET, range(1, COUNT + 1), batch=100))


def test_a_host_that_answers_wrong_is_found_out_whatever_misses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_liars() -> dict[str, Contestant]:
        return contestants() | contestants(TEST_CONTESTANTS)

    monkeypatch.setattr(languages, "contestants", with_liars)
    plan = Plan(
        COUNT,
        [Phase(stream.SET, range(COUNT), 160)],
        [[Phase(stream.GET, range(COUNT))]],
    )
    with (
        pytest.raises(WrongAnswerError, match="were wrong"),
        hosted("wrong_value", tmp_path, plan) as one,
    ):
        one.run(1)


def of_overview(what: str, peer: str, ours: float, theirs: float) -> Figure:
    return dataclasses.replace(
        figure(ours=(ours,) * 6, theirs=(theirs,) * 6, goal=None, what=what),
        peer=peer,
        relation="theirs / ours",
    )


FIGURES = (
    of_overview("get, 160 B", "dict", 90, 60),
    of_overview("get, 160 B", "lmdb 3.0", 90, 1_010),
    of_overview("get, 160 B", "APCu 5", 90, 240),
    of_overview("incr", "Redis 7 by redis 8", 100, 35_000),
)


def test_the_table_has_every_operation_and_says_why_a_figure_is_missing() -> None:
    lines = summary.operations_table([run(*FIGURES)])
    assert lines[0] == (
        "| operation | Tuckbox | dict | LMDB | DiskCache | memcached | Redis | APCu "
        "| Tuckbox, all rounds |"
    )
    assert len(lines) == 2 + 10
    assert (
        "| get, 160 B | **90.0 ns** | 60.0 ns | 1.01 us | not measured | not measured "
        "| not measured | 240 ns | 90.0\u201390.0 ns |"
    ) in lines
    assert (
        "| incr | **100 ns** | no call | no call | not measured | not measured | 35.0 us "
        "| not measured | 100\u2013100 ns |"
    ) in lines
    assert f"| delete |{' not measured |' * 8}" in lines


def test_the_table_is_of_all_rounds_of_all_runs() -> None:
    slower = of_overview("get, 160 B", "dict", 110, 80)
    # Another version of a peer is in the same column.
    newer = of_overview("get, 160 B", "lmdb 4.0", 110, 2_000)
    record = record_of(run(*FIGURES), run(slower, newer), row_id="overview")
    table = summary.overview_table(record)
    assert "| get, 160 B | **100 ns** | 70.0 ns | 1.50 us |" in table
    assert "| 90.0\u2013110 ns |" in table
    assert "Medians over 2 runs of 6 rounds." in table
    assert "Versions: lmdb 3.0, APCu 5, Redis 7 by redis 8, lmdb 4.0." in table
    assert "do not quote it" not in table
    quick = record_of(run(*FIGURES, is_quick=True), row_id="overview")
    assert "Medians over one run of 6 rounds. **The quick form: do not quote it.**" in (
        summary.overview_table(quick)
    )


def test_there_are_ten_operations_and_tuckbox_has_them_all() -> None:
    names = [operation.what for operation in overview.OPERATIONS]
    assert len(set(names)) == 10
    for operation in overview.OPERATIONS:
        assert overview.OURS not in operation.absent
        assert set(operation.absent) < set(overview.COLUMNS)
        # APCu has steps, or a word why not.
        assert (operation.in_php is None) == (overview.APCU in operation.absent)
