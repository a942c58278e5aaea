"""Extracts PHP extensions from Debian packages that conflict with another contestant's package.

Owns the folder of these files. Must not install a package: only the file is unpacked.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.runner.catalogue import LAB
from lab.runner.install.apt import administrator
from lab.runner.install.steps import Step, attempt

EXTENSIONS = LAB / "target" / "extensions"


def install(names: Sequence[str]) -> Iterator[Step]:
    """Unpack the extensions that PHP cannot load."""
    for name in names:
        what = f"PHP extension {name}"
        if not _loads(name):
            yield Step(what, new=False)
            continue
        with tempfile.TemporaryDirectory(prefix="lab-extension-") as folder:
            reason = _unpack(name, Path(folder))
        yield Step(what, reason or _loads(name))


def _unpack(name: str, folder: Path) -> str:
    version = "echo PHP_MAJOR_VERSION, '.', PHP_MINOR_VERSION;"
    script = (
        f'package="php$(php -n -r "{version}")-{name}" && apt-get download -q "$package"'
        f' && dpkg-deb --extract "$package"_*.deb . && install -D usr/lib/php/*/{name}.so "$1"'
    )
    root = administrator()
    if root is not None:
        attempt([*root, "apt-get", "update", "-q"])
    return attempt(["sh", "-c", script, "sh", str(EXTENSIONS / f"{name}.so")], folder)


def _loads(name: str) -> str:
    """Return an empty text if PHP loads the extension, else the reason why it does not."""
    check = f"exit((int) !extension_loaded('{name}'));"
    return attempt(["php", "-n", "-d", f"extension={EXTENSIONS / f'{name}.so'}", "-r", check])
