"""How the tests of a family tell what they did.

A family is one promise and all tests that try to break it. Its tests carry
``@pytest.mark.family("T-...")`` and count their trials; what came out is a record like those of the
torture program: a JSON object with ``family``, ``run``, ``good``, ``failures``, ``trials``,
``trial`` (what one is), ``seed`` and figures. A family of which a test was skipped, or whose tests
counted nothing, is not good.
"""

from __future__ import annotations

import json
import pathlib
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

SEED = 20_261_120
NIGHTLY_TIMEOUT_S = 3600

families_key = pytest.StashKey["dict[str, Family]"]()
seed_key = pytest.StashKey[int]()


@dataclass
class Family:
    """What the tests of one family did so far."""

    name: str
    files: set[str] = field(default_factory=set)
    tests: int = 0
    trials: dict[str, int] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def record(self, seed: int, size: str) -> dict[str, Any]:
        failures = [*self.failures, *(f"did not run: {what}" for what in self.skipped)]
        if not any(self.trials.values()):
            failures.append("no trial was counted")
        counted = self.trials if len(self.trials) > 1 else {}
        return {
            "family": self.name,
            "run": "pytest " + " ".join(sorted(self.files)),
            "size": size,
            "good": not failures,
            "failures": failures,
            "trials": sum(self.trials.values()),
            "trial": " + ".join(self.trials) or "trials",
            "seed": seed,
            "tests": self.tests,
            "seconds": round(self.seconds, 1),
            **counted,
            **self.figures,
        }


class Trials:
    """Counts for the family of a test."""

    def __init__(self, families: list[Family]) -> None:
        self._families = families

    def add(self, count: int, what: str) -> None:
        """Count trials; `what` is the plural of what one is."""
        for family in self._families:
            family.trials[what] = family.trials.get(what, 0) + count

    def figure(self, name: str, value: Any) -> None:
        """State a figure next to the count."""
        for family in self._families:
            family.figures[name] = value


def families_of(item: pytest.Item) -> list[Family]:
    known = item.config.stash[families_key]
    names = [name for mark in item.iter_markers("family") for name in mark.args]
    return [known.setdefault(name, Family(name)) for name in dict.fromkeys(names)]


@pytest.fixture
def trials(request: pytest.FixtureRequest) -> Trials:
    """The counter of the test's family."""
    families = families_of(request.node)
    assert families, "mark the test with its family"
    return Trials(families)


@pytest.fixture(scope="session")
def size(request: pytest.FixtureRequest) -> Callable[[Any, Any], Any]:
    """Chooses between the short and the nightly size: `size(60, 3000)`."""
    nightly = request.config.getoption("--nightly")
    return lambda short, long: long if nightly else short


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of random numbers: the same each time, a new one for `--nightly`."""
    return request.config.stash[seed_key]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "family(name, ...): the families that a test belongs to")
    config.stash[families_key] = {}
    given = config.getoption("--seed")
    drawn = secrets.randbelow(2**32) if config.getoption("--nightly") else SEED
    config.stash[seed_key] = drawn if given is None else given


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--nightly"):
        for item in items:
            if item.get_closest_marker("family"):
                item.add_marker(pytest.mark.timeout(NIGHTLY_TIMEOUT_S), append=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report: pytest.TestReport = yield  # type: ignore[misc, assignment]
    for family in families_of(item):
        family.seconds += call.duration
        family.files.add(item.path.name)
        family.tests += report.when == "call"
        if report.failed:
            message = call.excinfo.exconly() if call.excinfo else "failed"
            family.failures.append(f"{item.name} ({report.when}): {message[:1000]}")
        elif report.skipped:
            family.skipped.append(item.name)
    return report  # type: ignore[return-value]


def records(config: pytest.Config) -> list[dict[str, Any]]:
    chosen = "nightly" if config.getoption("--nightly") else "short"
    known = config.stash[families_key]
    return [known[name].record(config.stash[seed_key], chosen) for name in sorted(known)]


def pytest_sessionfinish(session: pytest.Session) -> None:
    file = session.config.getoption("--records")
    if file is not None:
        with pathlib.Path(file).open("a") as stream:
            for record in records(session.config):
                stream.write(json.dumps(record) + "\n")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    told = records(config)
    if told:
        terminalreporter.section("families")
    for record in told:
        verdict = "good" if record["good"] else "FAILED"
        terminalreporter.write_line(
            f"{record['family']}: {verdict}, {record['trials']:,} {record['trial']}, "
            f"seed {record['seed']}, {record['seconds']} s"
        )
        for failure in record["failures"]:
            terminalreporter.write_line(f"  {failure}")
