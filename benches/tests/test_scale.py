"""What tiers cost: the formulas on small cases, the replays, the measurements, and the page."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import msgspec
import pytest
import zstandard

from benches.scale import costs, fleet, page, record, server
from benches.scale.costs import Assumptions, Gap, Limits, Prices
from benches.scale.listeners import packed
from benches.scale.record import Fleet, Record
from rig import kept
from rig.kept import PageError
from rig.sources import ROOT

PRICES = Prices(
    read_us=10.0,
    write_us=20.0,
    ping_us=5.0,
    message_us={1: 8.0, 100: 2.0},
    message_bytes=70,
    applied_us=50.0,
    idle_us=1_000.0,
)
ASSUMED = Assumptions(
    reads=1_000,
    writes=10,
    workers=4,
    pool=2,
    max_stale_s=10,
    trace="trace",
    percent=1.0,
    header_bytes=30,
    connections_most=1_200,
)


def one(
    hits: list[int],
    machines: int = 10,
    stale: int = 0,
    cleared: bool = False,
    route: str = "random",
    gets: int = 100,
) -> Fleet:
    return Fleet("trace", 1.0, 50, machines, route, stale, cleared, [gets] * len(hits), hits)


def test_what_ten_machines_cost() -> None:
    found = costs.cost(10, 0.2, 0.5, ASSUMED, PRICES)
    assert found.processes == 40
    assert found.reads == 10_000
    assert found.far_reads == pytest.approx(2_000)
    # Of the 8,000 near hits, half are lost.
    assert found.far_reads_stale == pytest.approx(6_000)
    # 100 changes a second, each told to 40 processes in a message of 70 + 30 bytes.
    assert found.messages == 4_000
    assert found.message_bytes == 400_000
    # Two for operations and one to listen.
    assert found.connections == 120
    # Each process confirms five times in ten seconds.
    assert found.pings == 20
    # 40 is nearer to 100 than to 1, as factors.
    assert found.delay_us == 80
    assert found.core_without == pytest.approx(0.1 + 0.002)
    assert found.core == pytest.approx(0.02 + 0.002 + 0.008 + 0.0001)
    assert found.core_stale == pytest.approx(0.06 + 0.002)
    # Four processes apply 100 messages of 50 us and idle for 1 ms.
    assert found.machine_cores == pytest.approx(4 * (0.005 + 0.001))


def test_messages_grow_with_the_square_of_the_machines() -> None:
    few, many = (costs.cost(count, 0.2, 0.5, ASSUMED, PRICES) for count in (10, 100))
    assert many.messages == 100 * few.messages


def test_where_it_breaks() -> None:
    found = costs.limits(10, ASSUMED, PRICES)
    # 500,000 messages a second, and 40 for each pair of machines.
    assert found.messages == pytest.approx((500_000 / 40) ** 0.5)
    # 20,000 applied changes a second, and 40 for each machine.
    assert found.listening == pytest.approx(500)
    assert found.connections == 100
    assert found.first() == "connections"
    assert Limits(1, 2, 3).first() == "messages"
    assert Limits(3, 2, 4).first() == "listening"


def test_the_second_half_of_a_trace_counts() -> None:
    assert costs.share_of(one([0, 0, 80, 60])) == pytest.approx(0.3)


def test_between_the_replays_shares_follow_the_logarithm() -> None:
    points = [(10.0, 0.4), (1_000.0, 0.8)]
    assert costs.interpolated(100, points) == pytest.approx(0.6)
    assert costs.interpolated(1, points) == 0.4
    assert costs.interpolated(5_000, points) == pytest.approx(0.8)


def test_hits_that_are_lost_when_copies_end() -> None:
    hits = {0: 80, 500: 40, 5_000: 60, 50_000: 80}
    fleets = [one([0, count], stale=stale) for stale, count in hits.items()]
    assert costs.lost_of(fleets, "trace", 500) == pytest.approx(0.5)
    assert costs.lost_of(fleets, "trace", 5_000) == pytest.approx(0.25)
    assert costs.lost_of(fleets, "trace", 1e9) == pytest.approx(0.0)


def test_a_gap_costs_the_hits_that_are_missing_until_it_is_warm() -> None:
    plain = one([50, 60, 80, 80, 80, 80])
    cleared = one([50, 60, 80, 20, 70, 80], cleared=True)
    assert costs.gap(cleared, plain) == Gap(more_reads=7.0, lookups=30.0)
    never = one([50, 60, 80, 20, 70, 70], cleared=True)
    assert costs.gap(never, plain) == Gap(more_reads=8.0, lookups=None)


def test_the_most_machines_for_which_tracking_saves_cpu_time() -> None:
    fleets = [one([0, 80], machines=count) for count in fleet.MACHINES]
    # Of each machine, tracking saves 800 reads of 10 us. It costs 40 messages of 2 us for each
    # machine there is, and 4 confirmations of 5 us every 2 s: 8,000 = 80 x + 10.
    assert costs.saving_most(fleets, 10, ASSUMED, PRICES) == 99
    assert costs.saving_most(fleets, 0.001, ASSUMED, PRICES) is None
    assert costs.saving_most(fleets, 10_000, ASSUMED, PRICES) == 0


# --- Replays ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def program() -> Path:
    command = ["cargo", "build", "--quiet", "--profile", "dist", "-p", "tuckbox-engine"]
    subprocess.run([*command, "--example", "replay"], cwd=ROOT, check=True)
    return ROOT / "target" / "dist" / "examples" / "replay"


def replayed(
    program: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, keys: list[int], *wanted: Fleet
) -> list[Fleet]:
    lines = "".join(f"{key},1\n" for key in keys)
    trace = zstandard.ZstdCompressor().compress(f"key,size\n{lines}".encode())
    (folder / "trace.csv.zst").write_bytes(trace)
    monkeypatch.setattr(fleet, "asked", lambda _: wanted)
    return list(fleet.replay(program, folder, "trace"))


def test_machines_share_no_copies_unless_each_key_has_its_machine(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [1, 2, 3, 4] * 160
    wanted = [one([], machines=1), one([], machines=8), one([], machines=8, route="sticky")]
    alone, random, sticky = replayed(program, tmp_path, monkeypatch, keys, *wanted)
    assert sum(alone.gets) == sum(random.gets) == sum(sticky.gets) == 640
    assert len(alone.gets) == 64
    assert set(alone.gets) == {10}
    assert sum(alone.hits) == sum(sticky.hits) == 640 - 4
    # Every machine has seen every key.
    assert sum(random.hits) == 640 - 8 * 4


def test_copies_end_after_so_many_reads_of_a_machine(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [one([], machines=1, stale=stale) for stale in (0, 10, 64)]
    found = replayed(program, tmp_path, monkeypatch, [1] * 640, *wanted)
    assert [640 - sum(each.hits) for each in found] == [1, 64, 10]


def test_clearing_in_the_middle_costs_each_key_once(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [1, 2, 3, 4, 5] * 128
    (found,) = replayed(program, tmp_path, monkeypatch, keys, one([], machines=1, cleared=True))
    missed = [gets - hits for gets, hits in zip(found.gets, found.hits, strict=True)]
    assert {part: count for part, count in enumerate(missed) if count} == {0: 5, 32: 5}


def test_a_replay_that_fails_is_no_result(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit, match="trace: the replay ended with 1"):
        replayed(program, tmp_path, monkeypatch, [1], one([], route="nowhere"))


# --- Measurements ----------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    small: dict[str, object] = {
        "COMMANDS": 100,
        "MESSAGES": 100,
        "WRITES_LEAST": 20,
        "TRACKED_KEYS": 100,
    }
    small |= {"TRACKING_CONNECTIONS": 2, "PACE_S": 0.2, "IDLE_S": 0.2, "CONNECTIONS": (1, 3)}
    for name, value in small.items():
        monkeypatch.setattr(server, name, value)


@pytest.mark.usefixtures("quick")
def test_a_real_server_is_measured() -> None:
    found = server.measure(2, lambda _: None)
    key = b"$%d\r\n%b\r\n" % (len(server.KEY), server.KEY)
    assert found.message_bytes == len(b">2\r\n$10\r\ninvalidate\r\n*1\r\n" + key)
    assert found.more_key_bytes == len(key)
    assert [(each.connections, each.changes) for each in found.fan_out] == [
        (1, 1),
        (3, 1),
        (1, 16),
        (3, 16),
    ]
    assert all(len(each.cpu_us) == len(each.per_second) == 2 for each in found.fan_out)
    for figures in (found.read_us, found.connection_bytes, found.applied_us, found.idle_us):
        assert len(figures) == 2
    assert min(found.read_us + found.connection_bytes + found.tracked_key_bytes) > 0
    # The lease, then the value; the clock, then the tag.
    assert list(found.told.values()) == [1, 1, 2, 1, 2, 1]


@pytest.mark.usefixtures("quick")
def test_messages_that_are_not_as_expected_are_no_measurement() -> None:
    with (
        server.running() as port,
        server.Writer(port) as writer,
        pytest.raises(RuntimeError, match="99 messages"),
    ):
        server._fan_out(port, writer, 3, 1, (1, 1))


def test_a_prefix_is_told_in_all_databases() -> None:
    with (
        server.running() as port,
        server.Writer(port) as writer,
        server.Child("listeners", port, 1, "broadcast") as child,
    ):
        writer.ask(packed(b"SELECT", b"5"), 5)
        writer.ask(packed(b"SET", server.KEY, b"value"), 5)
        writer.ask(packed(b"SET", server.OTHER, b"value"), 5)
        assert child.ask()["messages"] == 1


# --- The page --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole() -> Record:
    found = kept.read(record.PATH, Record)
    assert found is not None
    return found


def test_the_page_has_the_figures_of_the_record(whole: Record) -> None:
    text = page.PAGE.read_text("utf-8")
    assert page.make(text, whole, Assumptions()) == text


def test_a_wrong_figure_on_the_page_is_found(whole: Record) -> None:
    text = page.PAGE.read_text("utf-8")
    assert whole.measured is not None
    wrong = text.replace(f"| {whole.measured.message_bytes} B;", "| 78 B;")
    assert wrong != text
    assert page.make(wrong, whole, Assumptions()) == text


def test_another_measurement_or_assumption_makes_another_page(whole: Record) -> None:
    text = page.PAGE.read_text("utf-8")
    assert whole.measured is not None
    slower = msgspec.structs.replace(
        whole.measured, applied_us=[2 * us for us in whole.measured.applied_us]
    )
    other = msgspec.structs.replace(whole, measured=slower)
    assert page.make(text, other, Assumptions()) != text
    kept_parts = page.parts(whole, Assumptions())
    for field in dataclasses.fields(Assumptions):
        changed: object = {"trace": "arc_oltp", "percent": 10.0}.get(field.name)
        if changed is None:
            changed = 2 * getattr(Assumptions(), field.name)
        assumed = dataclasses.replace(Assumptions(), **{field.name: changed})  # type: ignore[arg-type]
        made = page.parts(whole, assumed)
        assert not {made["answer"], made["limits"]} <= set(kept_parts.values()), field.name


def test_an_incomplete_record_or_page_is_refused(whole: Record) -> None:
    with pytest.raises(PageError, match="run measure and replay"):
        page.make("", Record(), Assumptions())
    with pytest.raises(PageError, match="answer"):
        page.make("", whole, Assumptions())


def test_every_replay_of_a_trace_has_all_its_lookups(whole: Record) -> None:
    for trace in fleet.TRACES:
        found = [each for each in whole.fleets if each.trace == trace]
        assert len(found) == len(fleet.asked(trace))
        assert len({sum(each.gets) for each in found}) == 1
