"""Installs Debian packages. Must not let Debian start the installed services."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab.runner.install.steps import Step, attempt

_POLICY = Path("/usr/sbin/policy-rc.d")


def install(packages: Sequence[str]) -> Iterator[Step]:
    """Install the missing packages."""
    if not packages:
        return
    what = f"{len(packages)} Debian packages"
    absent = _not_installed(packages)
    if not absent:
        yield Step(what, new=False)
        return
    root = administrator()
    if root is None:
        line = f"run as root: apt-get install {' '.join(absent)}"
        yield Step(what, f"installing needs root, and sudo asks for a password; {line}")
        return
    with _no_services(root):
        attempt([*root, "apt-get", "update", "-q"])
        if not attempt(_apt_install(root, absent)):
            yield Step(what)
            return
        # One unknown package makes the whole command fail, so install them one by one.
        for package in absent:
            yield Step(f"Debian package {package}", attempt(_apt_install(root, [package])))


def _not_installed(packages: Sequence[str]) -> list[str]:
    if shutil.which("dpkg-query") is None:
        return list(packages)
    query = ["dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status}\n", *packages]
    answer = subprocess.run(query, capture_output=True, text=True, check=False)
    there = {line.split()[0] for line in answer.stdout.splitlines() if line.endswith(" installed")}
    return [package for package in packages if package not in there]


def administrator() -> list[str] | None:
    """Return the command that runs its arguments as root, empty for root; None if impossible."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") and not attempt(["sudo", "--non-interactive", "true"]):
        return ["sudo", "--non-interactive"]
    return None


def _apt_install(root: Sequence[str], packages: Sequence[str]) -> list[str]:
    return [
        *root,
        *("env", "DEBIAN_FRONTEND=noninteractive"),
        # A conflict with an installed package is an error: the lab removes nothing.
        *("apt-get", "install", "-q", "-y", "--no-install-recommends", "--no-remove"),
        *("-o", "DPkg::Lock::Timeout=600"),
        *packages,
    ]


@contextmanager
def _no_services(root: Sequence[str]) -> Iterator[None]:
    """Prevent Debian from starting a service for each installed server; the lab starts its own.

    Debian asks `policy-rc.d` first (invoke-rc.d(8)). An existing one is left alone.
    """
    if _POLICY.exists():
        yield
        return
    with tempfile.NamedTemporaryFile("w", prefix="policy-", suffix=".sh") as script:
        script.write("#!/bin/sh\nexit 101\n")
        script.flush()
        attempt([*root, "install", "-m", "755", script.name, str(_POLICY)])
    try:
        yield
    finally:
        attempt([*root, "rm", "-f", str(_POLICY)])
