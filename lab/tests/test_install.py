"""The installer leaves installed things alone; a failure is reported and stops nothing else."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from lab.runner.install import Needs, apt, extensions, install, maven
from lab.runner.install.pip import satisfied
from lab.runner.install.steps import attempt
from lab.tests.marks import ROOT_ONLY


def test_what_is_there_is_left_alone() -> None:
    needs = Needs(apt=frozenset({"dpkg"}), pip=frozenset({f"click=={version('click')}"}))
    steps = list(install(needs))
    assert [(step.new, step.failed) for step in steps] == [(False, False)] * 2


def test_nothing_wanted_does_nothing() -> None:
    assert list(install(Needs())) == []


@ROOT_ONLY
def test_a_debian_package_that_does_not_exist_says_so() -> None:
    policy = Path("/usr/sbin/policy-rc.d")
    before = policy.exists()
    steps = list(install(Needs(apt=frozenset({"no-such-package-of-anyone", "dpkg"}))))
    assert [step.what for step in steps] == ["Debian package no-such-package-of-anyone"]
    assert "no-such-package-of-anyone" in steps[0].reason
    assert policy.exists() == before


def test_an_extension_that_does_not_exist_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extensions, "EXTENSIONS", tmp_path)
    (step,) = install(Needs(extensions=frozenset({"of_nobody"})))
    assert (step.what, step.failed) == ("PHP extension of_nobody", True)
    assert list(tmp_path.iterdir()) == []


def test_installing_by_apt_removes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def refuse(command: list[str]) -> str:
        commands.append(command)
        return "no"

    monkeypatch.setattr(apt, "administrator", list)
    monkeypatch.setattr(apt, "attempt", refuse)
    list(install(Needs(apt=frozenset({"no-such-package-of-anyone"}))))
    installs = [one for one in commands if one[-1] == "no-such-package-of-anyone"]
    assert len(installs) == 2
    assert all("--no-remove" in one for one in installs)


def test_a_python_package_that_does_not_exist_stops_no_other(tmp_path: Path) -> None:
    # Two unavailable packages are tried one by one; neither hides the other's reason.
    wanted = frozenset({"no-such-package-of-anyone==1", f"click=={version('click')}"})
    steps = list(install(Needs(pip=wanted)))
    assert [step.what for step in steps] == ["Python package no-such-package-of-anyone==1"]
    assert steps[0].failed


def test_another_version_is_not_there() -> None:
    assert not satisfied("click==0.0.1")
    assert satisfied(f"Click=={version('click')}")


def test_without_administrator_the_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apt, "administrator", lambda: None)
    (step,) = install(Needs(apt=frozenset({"no-such-package-of-anyone"})))
    assert "apt-get install no-such-package-of-anyone" in step.reason


def test_jars_that_cannot_be_had_are_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maven, "JARS", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    needs = Needs(maven={"server": frozenset({"a:b:1"})})
    for _ in range(2):
        (step,) = install(needs)
        assert "mvn cannot be run" in step.reason
    assert maven.jars("server") == ""


def test_the_project_names_every_jar() -> None:
    project = maven.project(["a.b:c:1.2", "d:e:3"])
    assert project.count("<dependency>") == 2
    assert "<artifactId>c</artifactId><version>1.2</version>" in project


def test_a_command_that_fails_leaves_its_last_words() -> None:
    assert attempt(["sh", "-c", "echo one; echo two >&2; exit 3"]) == "one; two"
    assert attempt(["sh", "-c", "exit 3"]) == "sh failed with exit status 3"
    assert "cannot be run" in attempt(["no-such-command-of-anyone"])
