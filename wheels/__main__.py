"""The commands of `python -m wheels`."""

from __future__ import annotations

import importlib.resources
import re
import subprocess
import sys
from pathlib import Path

import click

from wheels import audit, build
from wheels.targets import ROOT, TARGETS, Target, names, pythons

FOLDER = ROOT / "target" / "packages"

_TRIPLES = {target.triple: target for target in TARGETS}


@click.group()
def main() -> None:
    """Build and audit what users install, in target/packages."""


@main.command("build")
@click.option("--target", "triples", multiple=True, type=click.Choice(list(_TRIPLES)))
@click.option("--python", "versions", multiple=True, type=click.Choice(pythons()))
def build_(triples: tuple[str, ...], versions: tuple[str, ...]) -> None:
    """Build the source distribution, and the wheels from it; by default those of a release."""
    try:
        build.build(FOLDER, [_TRIPLES[one] for one in triples or _TRIPLES], versions or pythons())
    except build.BuildError as error:
        raise click.ClickException(str(error)) from error


@main.command("audit")
@click.option("--target", "triples", multiple=True, type=click.Choice(list(_TRIPLES)))
@click.option("--python", "versions", multiple=True, type=click.Choice(pythons()))
def audit_(triples: tuple[str, ...], versions: tuple[str, ...]) -> None:
    """Check files, licences, metadata, symbols and platform tags of what was built."""
    targets = [_TRIPLES[one] for one in triples or _TRIPLES]
    wanted = names(targets, versions or pythons())
    found = {path.name for path in FOLDER.iterdir()}
    problems = [f"{name} was not built" for name in sorted(set(wanted) - found)]
    problems += [f"{name} is not part of a release" for name in sorted(found - set(wanted))]
    for name in sorted(found & set(wanted)):
        path, target = FOLDER / name, wanted[name]
        if target:
            broken = audit.wheel(path, target) + _policy(path, target)
        else:
            broken = audit.source(path) if name.endswith(".tar.gz") else audit.universal(path)
        click.echo(f"{path.stat().st_size / 1024:7.0f} KiB  {name}")
        problems += [f"{name}: {problem}" for problem in broken]
    if problems:
        raise click.ClickException("\n".join(problems))


def _policy(path: Path, target: Target) -> list[str]:
    """Return what speaks against a wheel's platform tags."""
    if target.glibc_max is None:
        # `auditwheel` would look for musl on this machine, which may not have it.
        stub = importlib.resources.files("ziglang").joinpath("lib", "libc", "musl", "libc.S")
        known = re.findall(r"^[.A-Z]\S+ (\w+)$", stub.read_text(), re.MULTILINE)
        return audit.unknown_symbols(path, set(known))
    command = [sys.executable, "-m", "auditwheel", "show", str(path)]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    said = shown.stdout.replace("\n", " ")
    return [] if f'tag: "{target.tags[-1]}"' in said else [said + shown.stderr]


if __name__ == "__main__":
    main()
