"""Finds the archive of a source, verifies it, and unpacks it.

Owns what is trusted: a file with a listed SHA-256, whose members stay in its own folder. Must not
know how it is built.
"""

from __future__ import annotations

import hashlib
import http.client
import lzma
import os
import tarfile
import urllib.request
import zlib
from pathlib import Path

from lab.runner.catalogue import Archive, Source

# Names the folder that has copies of archives.
FOLDER_VARIABLE = "LAB_SOURCES"

_SECONDS_WITHOUT_ANSWER_MAX = 30.0
_ARCHIVE_BYTES_MAX = 256 << 20
_CHUNK_BYTES = 1 << 20


class RefusedArchiveError(Exception):
    """An archive has the wrong content."""


class NoArchiveError(Exception):
    """No archive of a source is available on this machine."""


def obtain(source: Source, folder: Path) -> tuple[str, Path]:
    """Return the name and the path of a verified archive of `source`.

    This is a copy in the folder that LAB_SOURCES names, or else a download into `folder`. Raises
    RefusedArchiveError for a wrong SHA-256, NoArchiveError if there is no archive.
    """
    copies = os.environ.get(FOLDER_VARIABLE, "")
    if copies:
        for archive in source.archives:
            path = Path(copies, archive.name)
            if path.is_file():
                _verify(path, archive)
                return archive.name, path
    causes = []
    for archive in source.archives:
        if archive.url:
            path = folder / archive.name
            try:
                _download(archive.url, path)
            except (OSError, http.client.HTTPException) as error:
                # Errors of urllib have their cause in `reason`.
                causes.append(f"{archive.url}: {getattr(error, 'reason', error)}")
                continue
            _verify(path, archive)
            return archive.name, path
    raise NoArchiveError(_advice(source, causes))


def unpack(path: Path, folder: Path) -> Path:
    """Unpack an archive into the empty `folder`; return its single top-level folder.

    Raises RefusedArchiveError for members that would be written elsewhere.
    """
    try:
        with tarfile.open(path) as archive:
            _extract(archive, folder)
    except (tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise RefusedArchiveError(f"{path.name} cannot be unpacked: {error}") from error
    top = list(folder.iterdir())
    if len(top) != 1 or not top[0].is_dir():
        raise RefusedArchiveError(
            f"{path.name} must contain exactly one folder, but has {len(top)} entries"
        )
    return top[0]


def _extract(archive: tarfile.TarFile, folder: Path) -> None:
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter="data")
        return
    # CPython before 3.11.4, as in Debian 12, has no filter. Links could point outside: refused.
    for member in archive:
        name = Path(member.name)
        if name.is_absolute() or ".." in name.parts or not (member.isfile() or member.isdir()):
            raise tarfile.TarError(f"{member.name!r} may be outside the destination")
        archive.extract(member, folder)


def _verify(path: Path, archive: Archive) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != archive.sha256:
        raise RefusedArchiveError(f"{path} has the SHA-256 {found} instead of {archive.sha256}")


def _download(url: str, path: Path) -> None:
    """Download `url` to `path`. Raises OSError and HTTPException."""
    # The catalogue accepts only https addresses.
    request = urllib.request.Request(url)  # noqa: S310
    with (
        urllib.request.urlopen(request, timeout=_SECONDS_WITHOUT_ANSWER_MAX) as answer,  # noqa: S310
        path.open("wb") as file,
    ):
        while chunk := answer.read(_CHUNK_BYTES):
            if file.tell() + len(chunk) > _ARCHIVE_BYTES_MAX:
                raise OSError(f"more than {_ARCHIVE_BYTES_MAX >> 20} MiB")
            file.write(chunk)


def _advice(source: Source, causes: list[str]) -> str:
    """Return why there is no archive, and which file is needed."""
    files = " or ".join(f"{one.name} (SHA-256 {one.sha256})" for one in source.archives)
    no_download = f"no download ({'; '.join(causes)})" if causes else "no download is known"
    return (
        f"{no_download}; put {files} into a folder, set {FOLDER_VARIABLE} to that folder, and run: "
        f"python -m lab install"
    )
