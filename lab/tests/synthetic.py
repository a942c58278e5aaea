"""Invented records for tests of the reports: real types, made-up figures.

Includes the variants, phases and labels of every suite; costs are drawn from a fixed
seed. Each kind of failure happens to one contestant: see the constants below.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from lab.protocol import ACTIONS, Action, Tally, Verdict
from lab.runner import streams
from lab.runner.catalogue import (
    Contestant,
    Part,
    Phase,
    PhasesSuite,
    Placement,
    Suite,
    Variant,
    Weighed,
    suites,
)
from lab.runner.histograms import encode
from lab.runner.records import Ending, Header, Settings
from lab.runner.results import (
    AnyCell,
    Held,
    Pass,
    PhaseResult,
    PhasesCell,
    ReplayCell,
    Resources,
    Source,
    Stat,
    Step,
    Try,
)
from rig.machine import Disturbance, Machine

STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
HOSTILE = "<script>alert('x')</script> & \"quotes\" </script>"

# Name, title, host, server of contestants that are not in the labels of a suite.
_OTHERS = (
    ("tuckbox", "Tuckbox", "python", ""),
    ("lmdb", "LMDB, py-lmdb", "python", ""),
    ("redis:tcp", "Redis by TCP, redis-py", "python", "redis"),
    ("native_tuckbox", "Tuckbox, native", "native", ""),
    ("native_moka", "moka", "native", ""),
)
# Answers from copies of unlimited age, in front of its server.
COPIES, COPIES_TITLE = "php_copies", "Copies::InFrontOf::Memcached::libmemcached"
# A leader for the answer in each language.
_ANSWERS = (
    ("perl_answer", "Perl answer", "perl", ""),
    ("php_answer", "PHP answer", "php", ""),
    (COPIES, COPIES_TITLE, "php", "x"),
)
NULLS = (("null", "python"), ("perl_null", "perl"), ("php_null", "php"))

# The failures, by contestant.
FAILED = "native_moka"
UNAVAILABLE = "php_xcache"
WRONG = "perl_filecache"
NOISY = "lmdb"
STOPPED = "django_filebased"
# Exceeds every limit in bytes.
GREEDY = "perl_hash"


def contestant(
    name: str, title: str, host: str, server: str = "", stores: bool = True
) -> Contestant:
    """Return a contestant where only name, title and host matter."""
    return Contestant(
        title=title,
        what="Invented for a test.",
        host=host,
        shared_by="network" if server else "machine",
        survives_restart="mmap" in name or "tuckbox" in name,
        evicts="lmdb" not in name,
        counts=[] if name == GREEDY else ["entries", "bytes"],
        cannot=[],
        suites=[],
        values=["binary", "complex"],
        server=server,
        stores=stores,
        max_stale_s="no bound" if name == COPIES else 0.0,
        name=name,
    )


def contestants(suite: PhasesSuite) -> list[Contestant]:
    """Return the contestants of a suite: those in its labels, some others, and nulls."""
    found = []
    for name, label in suite.labels.items():
        host = "perl" if name.startswith("perl") else "php" if name.startswith("php") else "python"
        served = any(word in name for word in ("mem", "redis", "maria", "tyrant", "mongo"))
        served = served and "memory" not in name
        found.append(contestant(name, f"{label.partition(';')[0]} ({name})", host, "x" * served))
    found += [contestant(*other) for other in _OTHERS]
    found += [contestant(*other) for other in _ANSWERS if suite.answer is not None]
    found += [contestant(one, one, "python") for part in suite.parts for one in part.only]
    hosts = {one.host for one in found}
    found += [
        contestant(name, f"Nothing ({host})", host, stores=False)
        for name, host in NULLS
        if host in hosts
    ]
    return found


def phases_suites() -> list[PhasesSuite]:
    """Return the lab's suites in phases that have a quick form."""
    return [one for one in suites().values() if isinstance(one, PhasesSuite) and one.forms.quick]


def header(of: Sequence[Suite], rows: Sequence[Contestant]) -> Header:
    """Return the header of a run of these suites."""
    machine = Machine(
        cpu=f"Invented CPU {HOSTILE}",
        cores=2,
        memory_bytes=24_000_000_000,
        kernel="Linux 6.1",
        system="Invented OS",
        python="CPython 3.11.7",
        libraries={"msgspec": "0.22.0"},
        client_core=0,
        server_core=1,
        load_before=0.25,
    )
    settings = Settings(
        command=["run", "--quick"],
        form="quick",
        seed=1,
        suites=[],
        contestants=[],
        data="a new folder in shared memory",
    )
    return Header(STARTED, machine, settings, list(of), list(rows))


def cells(suite: PhasesSuite, rows: Sequence[Contestant], rounds: int = 3) -> Iterator[PhasesCell]:
    """Return the cells of a whole run of a suite in order."""
    for number in range(1, rounds + 1):
        for part in suite.parts:
            for row in (one for one in rows if not part.only or one.name in part.only):
                for variant in part.variants:
                    placements: tuple[Placement, ...] = ("free",)
                    if part.processes == 1:
                        placements = ("same core", "split cores") if row.server else ("one core",)
                    for placement in placements:
                        yield _cell(suite, part, variant, row, placement, number)


def _cell(
    suite: PhasesSuite,
    part: Part,
    variant: Variant,
    row: Contestant,
    placement: Placement,
    number: int,
) -> PhasesCell:
    cell = PhasesCell(
        suite=suite.name,
        part=part.name,
        variant=variant.name,
        contestant=row.name,
        placement=placement,
        round=number,
        outcome="measured",
        version="1.2.3",
        runtime=f"{row.host} 5",
        server_version="server 7" if row.server else "",
        timer=encode([28, 29, 30, 41]),
        start_ns=30_000_000,
        create_ns=1_000_000,
        open_ns=2_000_000,
        clear_ns=4_000_000 if part.empties else None,
        close_ns=500_000,
        stop_ns=3_000_000,
        probe_keys=64,
        seconds=0.4,
        source=streams.source(1, suite.name),
        repeat=["python", "-m", "lab", "run", "--suite", suite.name, "--contestant", row.name],
    )
    bytes_max = part.limits_of(variant).bytes
    if row.stores and bytes_max:
        occupied = bytes_max - 10_000 if row.name != GREEDY else 2 * bytes_max
        cell.held = Held("server" if row.server else "file", bytes_max, bytes_max, True, occupied)
    if row.name == FAILED:
        cell.outcome, cell.reason = "failed", f"worker 0 died in run: {HOSTILE}"
        return cell
    if row.name == UNAVAILABLE:
        cell.outcome, cell.reason = "unavailable", "its last release does not build any more"
        return cell
    dice = random.Random(f"{row.name}/{variant.name}/{placement}/{number}")
    base_ns = _base_ns(row, placement)
    base_ns *= 1 + 0.03 * dice.random()
    if row.name == NOISY and number == 2:
        base_ns *= 1.6
    # In the suite of the answer, everything fits.
    missing = 0.1 if row.stores and suite.answer is None else 0.0
    large = variant.sizes.largest * (14 if variant.value == "complex" else 1)
    base_ns += large * 0.05
    for phase in part.phases:
        if not phase.preload:
            cell.phases.append(_phase(part, variant, phase, row, base_ns, dice, missing))
    if row.name == WRONG and number == 1:
        cell.phases[0].latency = _with_wrong(cell.phases[0].latency)
        cell.probe = Verdict(lost=2)
    cell.resources = Resources(
        client_bytes_opened=20_000_000,
        client_bytes_full=24_000_000,
        server_bytes_opened=5_000_000 if row.server else 0,
        server_bytes_full=70_000_000 if row.server else 0,
        server_cpu_ns=900_000_000 if row.server else 0,
        store_bytes=0 if row.server else 729_088,
    )
    return cell


def _base_ns(row: Contestant, placement: Placement) -> float:
    if not row.stores:
        return 40.0
    fixed = random.Random(row.name).uniform(math.log(300), math.log(40_000))
    if "tuckbox" in row.name:
        return 400.0
    if row.server:
        return 15_000.0 if placement == "same core" else 55_000.0
    return math.exp(fixed)


def _with_wrong(one: Pass | None) -> Pass | None:
    if one is not None:
        one.verdict = Verdict(wrong=3, examples=[f"key 7: another key's value {HOSTILE}"])
        one.actions["set"].tally.wrong = 3
    return one


def _phase(
    part: Part,
    variant: Variant,
    phase: Phase,
    row: Contestant,
    base_ns: float,
    dice: random.Random,
    missing: float,
) -> PhaseResult:
    result = PhaseResult(phase.name)
    for measure in phase.passes:
        timed = measure == "latency"
        one = _pass(part, variant, phase, row, base_ns, dice, missing, timed=timed)
        if measure == "latency":
            result.latency = one
        else:
            result.throughput = one
    return result


def _pass(
    part: Part,
    variant: Variant,
    phase: Phase,
    row: Contestant,
    base_ns: float,
    dice: random.Random,
    missing: float,
    *,
    timed: bool,
) -> Pass:
    planned = phase.operations or phase.operations_per_key * part.keys_of(variant)
    planned = min(planned, 100_000) * part.processes
    grows = 1.0 if row.name != STOPPED else 60.0
    done = planned if row.name != STOPPED or len(phase.steps) == 0 else min(planned, 2_500)
    shares: dict[Action, float] = {
        "get": phase.shares.get,
        "set": phase.shares.set,
        "delete": phase.shares.delete,
    }
    actions = {}
    for action in ACTIONS:
        count = round(done * shares[action])
        absent = round(count * phase.absent) if action == "get" else 0
        miss = absent + (round(count * missing) if action == "get" else 0)
        factor = 3.0 if action == "set" else 1.0
        drawn = [
            max(1, round(base_ns * factor * math.exp(dice.gauss(0, 0.25)))) for _ in range(200)
        ]
        actions[action] = Stat(
            Tally(count, miss, absent),
            total_ns=round(count * base_ns * factor) if timed else 0,
            histogram=encode(drawn) if timed and count else "",
        )
    total_ns = round(done * base_ns)
    steps = []
    for count in phase.steps if timed else ():
        if count <= done:
            steps.append(Step(count, round(count * base_ns * (1 + grows * count / 2_500))))
    return Pass(
        planned=planned,
        done=done,
        # The workers share two cores.
        elapsed_ns=round(total_ns / min(part.processes, 2)),
        together_ns=round(total_ns / min(part.processes, 2) * 0.8),
        cpu_ns=round(total_ns * 0.9),
        cores=2 if part.processes > 1 else 1,
        workers=part.processes,
        stretches=part.processes,
        block_operations=256,
        block_ns=0 if timed else round(256 * base_ns),
        actions=actions,
        verdict=Verdict(),
        steps=steps,
    )


# For each: hits of 10,000 requests at the middle capacity, how it is weighed, and whether
# it stayed within the bytes.
_REPLAYS: tuple[tuple[str, int, Weighed, bool], ...] = (
    ("diskcache", 5_000, "file", True),
    ("diskcache_lru", 5_500, "file", True),
    ("tuckbox", 6_250, "file", True),
    ("redis:socket", 5_200, "server", True),
    ("native_moka:copied", 6_900, "client", False),
)


def replay_cells() -> list[ReplayCell]:
    """Return the cells of a replay at three capacities, in a possible order of their ends."""
    found = []
    for capacity in (0.05, 0.10, 0.25):
        for name, hits, weighed, equal in _REPLAYS:
            bytes_max = round(capacity * 40_968_000)
            hits_there = round(hits * (0.8 + capacity * 2))
            occupied = bytes_max - 10_000 if equal else bytes_max + 700_000
            settled = occupied if weighed == "file" else 0
            found.append(
                ReplayCell(
                    "web07",
                    name,
                    capacity,
                    "measured",
                    weighed,
                    bytes_max,
                    equal=equal,
                    kept=1,
                    tries=[
                        Try(bytes_max, 10_000, hits_there + 300, 0, bytes_max + 2_000_000),
                        Try(bytes_max // 2, 10_000, hits_there, 0, occupied, settled),
                    ],
                    reason="" if equal else f"it used at least {occupied:,} bytes {HOSTILE}",
                    source=Source(recorded=True, text="recorded in web07.csv.zst, SHA-256 da92"),
                )
            )
    random.Random(3).shuffle(found)
    return found


def ending() -> Ending:
    """Return the ending of a noisy run with a fault."""
    return Ending(
        STARTED + timedelta(minutes=9),
        Disturbance(others=0.02, stolen=0.0),
        ["3 of 80 rows differ by more than 10 % between rounds"],
        [f"{WRONG}: 3 wrong values"],
    )


def write(
    path: Path,
    of: Sequence[PhasesSuite] | None = None,
    *,
    ended: bool = True,
    torn: bool = False,
    rounds: int = 3,
    replays: bool = True,
) -> Path:
    """Write the records of a run of the suites `of`, all by default; return `path`."""
    chosen = phases_suites() if of is None else list(of)
    rows = {suite.name: contestants(suite) for suite in chosen}
    everyone = {row.name: row for own in rows.values() for row in own}
    all_suites: list[Suite] = [*chosen]
    drawn: list[AnyCell] = []
    for suite in chosen:
        drawn += cells(suite, rows[suite.name], rounds)
    if replays:
        all_suites.append(suites()["web07"])
        drawn += replay_cells()
    records: list[msgspec.Struct] = [header(all_suites, list(everyone.values())), *drawn]
    if ended:
        records.append(ending())
    content = b"".join(msgspec.json.encode(record) + b"\n" for record in records)
    path.write_bytes(content[:-40] if torn else content)
    return path
