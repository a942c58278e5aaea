"""Several native hosts on one store judge each other's values by the rules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from lab.protocol import Loaded, Opened, Probed, ProbeRead, ProbeWrite, Verdict
from lab.tests import workers_rules
from lab.tests.native_hosts import PRELOAD, StartHost, key_texts, native_hosts, some_work
from lab.tests.talking import Conversation, Plan, ask_all, needs, prepare, run_together

WORKERS = 3

HOSTS = native_hosts
pytestmark = needs("cargo")


# The rules, answer by answer.


@pytest.mark.parametrize("name", workers_rules.CASES)
def test_the_rules_of_several_workers(tmp_path: Path, start: StartHost, name: str) -> None:
    host = start("native_scripted")
    workers_rules.check(host, tmp_path, None, workers_rules.CASES[name])


@pytest.mark.parametrize("seed", range(5))
def test_random_answers_are_judged_as_by_the_reference(
    tmp_path: Path, start: StartHost, seed: int
) -> None:
    workers_rules.check_randomly(start("native_scripted"), tmp_path, None, seed)


# Workers that share a store.


def working(start: StartHost, folder: Path, name: str) -> Sequence[Conversation]:
    """Return hosts that have opened one store, as the runner does: one after the other."""
    mixes = [some_work(2_000, worker) for worker in range(WORKERS)]
    plan = Plan(folder, None, [[PRELOAD], mixes], key_texts())
    hosts = [start(name) for _ in range(WORKERS)]
    ask_all(hosts, [plan.load(worker, WORKERS) for worker in range(WORKERS)], Loaded)
    opening = plan.open()
    for host in hosts:
        host.ask(opening, Opened)
    return hosts


def test_workers_on_one_honest_store_accuse_nobody(tmp_path: Path, start: StartHost) -> None:
    hosts = working(start, tmp_path, "native_honest")
    assert hosts[0].run(0).done == len(PRELOAD)
    for ran in run_together(hosts, prepare(1, "throughput", stretch=2_000)):
        assert (ran.done, ran.verdict) == (2_000, Verdict())
        # All keys are stored by somebody, so nobody can say that a miss was right.
        assert ran.actions["get"].absent == 0
        assert ran.actions["get"].miss < ran.actions["get"].count


@pytest.mark.parametrize(("name", "kind"), [("wrong_value", "wrong"), ("stale", "stale")])
def test_workers_catch_what_one_would(
    tmp_path: Path, start: StartHost, name: str, kind: str
) -> None:
    hosts = working(start, tmp_path, f"native_{name}")
    hosts[0].run(0)
    verdict = Verdict()
    for ran in run_together(hosts, prepare(1, stretch=2_000)):
        verdict.add(ran.verdict)
    assert (verdict.wrong > 0, verdict.stale > 0) == (kind == "wrong", kind == "stale")


def test_workers_read_each_others_probe_keys(tmp_path: Path, start: StartHost) -> None:
    hosts = working(start, tmp_path, "native_honest")
    ask_all(hosts, [ProbeWrite()] * WORKERS, Probed)
    for probed in ask_all(hosts, [ProbeRead([0, 2])] * WORKERS, Probed):
        assert (probed.keys, probed.verdict) == (128, Verdict())
