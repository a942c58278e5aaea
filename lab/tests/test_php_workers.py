"""Several PHP workers on one store: the rules by which their answers are judged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lab import protocol
from lab.tests import workers_rules
from lab.tests.php_hosts import (
    SHIPPED,
    Host,
    key_texts,
    mixed,
    sets,
    started,
)
from lab.tests.talking import (
    Plan,
    ask_all,
    needs,
    prepare,
    run_together,
)

pytestmark = needs("php")


OBEDIENT = """<?php
use Lab\\Host\\Limits;
use Lab\\Host\\Store;
// Answers what the script says, a line a call.
return function (string $folder, Limits $limits, array $settings): Store {
    $lines = file($settings['script'], FILE_IGNORE_NEW_LINES);
    $says = function () use (&$lines): mixed {
        $line = array_shift($lines);
        return match ($line) {
            'nothing' => null,
            'yes' => true,
            'no' => false,
            default => hex2bin(substr($line, 1)),
        };
    };
    return new Store(get: $says, set: $says, delete: $says, close: fn () => null);
};
"""


@pytest.fixture(scope="module")
def obedient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, Path]]:
    """Give a host and the adapter that answers what a script says."""
    folder = tmp_path_factory.mktemp("obedient")
    adapter = folder / "adapter.php"
    adapter.write_text(OBEDIENT)
    with started(folder, folder) as host:
        yield host, adapter


@pytest.mark.parametrize("name", workers_rules.CASES)
def test_the_rules_of_several_workers(
    obedient: tuple[Host, Path], tmp_path: Path, name: str
) -> None:
    host, adapter = obedient
    workers_rules.check(host, tmp_path, adapter, workers_rules.CASES[name])


@pytest.mark.parametrize("seed", range(5))
def test_random_answers_are_judged_as_by_the_reference(
    obedient: tuple[Host, Path], tmp_path: Path, seed: int
) -> None:
    host, adapter = obedient
    workers_rules.check_randomly(host, tmp_path, adapter, seed)


LYING = """<?php
use Lab\\Host\\Limits;
use Lab\\Host\\Store;
// Files that all workers share. Every tenth time it does what the settings say.
return function (string $folder, Limits $limits, array $settings): Store {
    $honest = (require $settings['honest'])($folder, $limits, $settings);
    $times = 0;
    return new Store(
        get: function (string $key) use ($honest, $settings, &$times) {
            $value = ($honest->get)($key);
            $lies = $settings['lie'] === 'wrong' && is_string($value) && ++$times % 10 === 0;
            return $lies ? strrev($value) : $value;
        },
        set: function (string $key, string $value) use ($honest, $settings, &$times) {
            $lies = $settings['lie'] === 'stale' && ++$times % 10 === 0;
            return $lies || ($honest->set)($key, $value);
        },
        delete: $honest->delete,
        close: $honest->close,
    );
};
"""


def together(folder: Path, adapter: Path, settings: dict[str, str]) -> list[protocol.Ran]:
    """Let three workers run a mix each on one store, and return what came of it."""
    mixes = [mixed(800, seed=worker) for worker in range(3)]
    plan = Plan(folder, adapter, [[sets(100)], mixes], key_texts(), settings=settings)
    with ExitStack() as stack:
        hosts = [stack.enter_context(started(folder, folder)) for _ in range(3)]
        ask_all(hosts, [plan.load(worker, 3) for worker in range(3)], protocol.Loaded)
        opening = plan.open()
        for host in hosts:
            host.ask(opening, protocol.Opened)
        assert hosts[0].run(0).done == 100
        return run_together(hosts, prepare(1, "latency", warmup=80, stretch=800))


@pytest.mark.parametrize("name", ["php_files", "php_sqlite"])
def test_workers_on_one_honest_store_accuse_nobody(tmp_path: Path, name: str) -> None:
    for ran in together(tmp_path, SHIPPED / name / "adapter.php", {}):
        assert ran.verdict.wrong == ran.verdict.stale == 0, ran.verdict
        assert ran.done == 800
        assert sum(tally.count for tally in ran.actions.values()) == 720
        assert ran.elapsed_ns == ran.ended_ns - ran.started_ns
        # All keys are stored by somebody, so nobody can say that a miss was right.
        assert ran.actions["get"].absent == 0
        assert ran.actions["get"].miss < ran.actions["get"].count


@pytest.mark.parametrize("lie", ["wrong", "stale"])
def test_workers_catch_what_one_would(tmp_path: Path, lie: str) -> None:
    (tmp_path / "adapter.php").write_text(LYING)
    settings = {"lie": lie, "honest": str(SHIPPED / "php_files" / "adapter.php")}
    verdict = protocol.Verdict()
    for ran in together(tmp_path, tmp_path / "adapter.php", settings):
        verdict.add(ran.verdict)
    assert {"wrong": verdict.wrong > 0, "stale": verdict.stale > 0} == {
        "wrong": lie == "wrong",
        "stale": lie == "stale",
    }
