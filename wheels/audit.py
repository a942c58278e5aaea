"""Judges a wheel or a source distribution: contents, licences, metadata, symbols, size.

Owns the rules. Each function returns the rules that are broken, as sentences. Must not build
anything.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from elftools.elf.dynamic import DynamicSection, DynamicTag
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from elftools.elf.sections import SymbolTableSection
from packaging.metadata import Metadata
from trove_classifiers import classifiers as known_classifiers

from wheels.targets import ROOT, TARGETS, Target, version

#: What maturin adds to a wheel, in its folder of metadata.
_DIST_INFO = {
    "METADATA",
    "RECORD",
    "WHEEL",
    "licenses/LICENSE",
    "licenses/THIRD-PARTY-LICENSES.txt",
    "sboms/tuckbox-python.cyclonedx.json",
}
#: The libraries that every system of a target has. Zig links the unwinder into the extension.
_LIBRARIES_GLIBC = {
    "libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1",
    "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1",
}  # fmt: skip
_LIBRARIES_MUSL = {"libc.so"}
_WHEEL_MIB_MAX = 2
_SDIST_MIB_MAX = 1
_FOLDERS = re.compile(rb"/(?:root|home|tmp|work|build)/[\w./-]+")
_LINKED = re.compile(r"^([\w-]+) v([\d.]+\S*)", re.MULTILINE)


def wheel(path: Path, target: Target) -> list[str]:
    """Return what is wrong with a wheel for a target."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    metadata = f"tuckbox-{version()}.dist-info"
    extensions = [name for name in contents if name.endswith(".so")]
    problems = list(_wheel_files(contents, metadata, extensions))
    if len(path.read_bytes()) > _WHEEL_MIB_MAX << 20:
        problems.append(f"the wheel is larger than {_WHEEL_MIB_MAX} MiB")
    for name in extensions:
        problems += extension(contents[name], target)
    for name, judge in (
        ("METADATA", core_metadata),
        ("sboms/tuckbox-python.cyclonedx.json", sbom),
        ("licenses/THIRD-PARTY-LICENSES.txt", licences),
    ):
        if (content := contents.get(f"{metadata}/{name}")) is not None:
            problems += judge(content)
    return problems


def _wheel_files(contents: dict[str, bytes], metadata: str, extensions: list[str]) -> Iterator[str]:
    if len(extensions) != 1:
        yield f"one extension module expected, found {extensions}"
    wanted = {name.removeprefix("python/") for name in _tracked("python/tuckbox")}
    wanted |= {f"{metadata}/{name}" for name in _DIST_INFO} | set(extensions)
    # Some tools store folders too.
    found = {name for name in contents if not name.endswith("/")}
    yield from (f"{name} is missing" for name in sorted(wanted - found))
    yield from (f"{name} does not belong into a wheel" for name in sorted(found - wanted))


def universal(path: Path) -> list[str]:
    """Return what is wrong with the wheel without the extension."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    metadata = f"tuckbox-{version()}.dist-info"
    wanted = {name.removeprefix("python/") for name in _tracked("python/tuckbox")}
    wanted |= {f"{metadata}/{name}" for name in _DIST_INFO if not name.startswith("sboms/")}
    problems = [f"{name} is missing" for name in sorted(wanted - set(contents))]
    problems += [f"{name} does not belong into it" for name in sorted(set(contents) - wanted)]
    if b"\nTag: py3-none-any\n" not in contents.get(f"{metadata}/WHEEL", b""):
        problems.append("its tag is not py3-none-any")
    recorded = contents.get(f"{metadata}/RECORD", b"").decode()
    for name, content in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        if f"{name},sha256={digest},{len(content)}\n" not in recorded and "RECORD" not in name:
            problems.append(f"RECORD has another {name}")
    return problems + core_metadata(contents.get(f"{metadata}/METADATA", b""))


def source(path: Path) -> list[str]:
    """Return what is wrong with a source distribution."""
    with tarfile.open(path) as archive:
        root = path.name.removesuffix(".tar.gz")
        found = {
            member.name.removeprefix(f"{root}/"): archive.extractfile(member)
            for member in archive.getmembers()
            if member.isfile()
        }
        metadata = found.pop("PKG-INFO", None)
        problems = [] if metadata is None else core_metadata(metadata.read())
    tracked = set(_tracked("."))
    wanted = {
        "Cargo.toml", "Cargo.lock", "LICENSE", "README.md", "THIRD-PARTY-LICENSES.txt",
        "pyproject.toml",
        *_tracked("python/tuckbox"),
        *_tracked("crates/arena/src"), *_tracked("crates/engine/src"),
        *_tracked("crates/python/src"),
    }  # fmt: skip
    problems += [f"{name} is missing" for name in sorted(wanted - set(found))]
    for name in sorted(found):
        if name not in tracked:
            problems.append(f"{name} is not in the repository")
        elif not re.match(r"crates/|python/", name) and name not in wanted:
            problems.append(f"{name} does not belong into a source distribution")
    if len(path.read_bytes()) > _SDIST_MIB_MAX << 20:
        problems.append(f"the source distribution is larger than {_SDIST_MIB_MAX} MiB")
    return problems


def extension(content: bytes, target: Target) -> list[str]:
    """Return what is wrong with an extension module: symbols, libraries, leftovers."""
    elf = ELFFile(BytesIO(content))
    problems = list(_library_problems(elf, target))
    symbols = elf.get_section_by_name(".dynsym")
    assert isinstance(symbols, SymbolTableSection)
    exported = {
        symbol.name
        for symbol in symbols.iter_symbols()
        if symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_info"]["bind"] != "STB_LOCAL"
    }
    if exported != {"PyInit__engine"}:
        problems.append(f"it exports {', '.join(sorted(exported))} instead of PyInit__engine only")
    imported = {symbol.name for symbol in symbols.iter_symbols()} - exported
    # The linker's own, slower copy would be used otherwise.
    problems += [
        f"{name} is not the C library's"
        for name in sorted({"memcpy", "memmove", "bcmp"} - imported)
    ]
    if elf.get_section_by_name(".symtab") or elf.get_section_by_name(".debug_info"):
        problems.append("it is not stripped")
    stack = [one for one in elf.iter_segments() if one["p_type"] == "PT_GNU_STACK"]
    if not stack or stack[0]["p_flags"] & 1:
        problems.append("its stack is executable")
    leaked = sorted({found.decode() for found in _FOLDERS.findall(content)})
    problems += [f"it names a folder of the machine that built it: {name}" for name in leaked[:3]]
    return problems


def unknown_symbols(wheel: Path, known: set[str]) -> list[str]:
    """Return the symbols that a wheel needs of others than Python and does not know."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".so"))
        symbols = ELFFile(BytesIO(archive.read(name))).get_section_by_name(".dynsym")
    assert isinstance(symbols, SymbolTableSection)
    return [
        f"it needs {symbol.name}, which musl does not have"
        for symbol in symbols.iter_symbols()
        if (symbol["st_shndx"], symbol["st_info"]["bind"]) == ("SHN_UNDEF", "STB_GLOBAL")
        and not symbol.name.startswith(("Py", "_Py"))
        and symbol.name not in known
    ]


def _library_problems(elf: ELFFile, target: Target) -> Iterator[str]:
    allowed = _LIBRARIES_GLIBC if target.glibc_max else _LIBRARIES_MUSL
    dynamic = elf.get_section_by_name(".dynamic")
    assert isinstance(dynamic, DynamicSection)
    for tag in dynamic.iter_tags():
        if tag.entry.d_tag == "DT_NEEDED" and (name := _library(tag)) not in allowed:
            yield f"it needs {name}, which not every system has"
        if tag.entry.d_tag in {"DT_RPATH", "DT_RUNPATH"}:
            yield "it has a search path for libraries"
    processor = target.triple.partition("-")[0]
    if elf["e_machine"] != {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}[processor]:
        yield f"it is for {elf['e_machine']}"
    needed = elf.get_section_by_name(".gnu.version_r")
    if not isinstance(needed, GNUVerNeedSection):
        return
    for _, versions in needed.iter_versions():
        for one in versions:
            found = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", one.name)
            if not target.glibc_max:
                yield f"it needs {one.name}, which musl does not have"
            elif not found or (int(found[1]), int(found[2])) > target.glibc_max:
                yield f"it needs {one.name}, which {target.policy} does not have"


def _library(tag: DynamicTag) -> str:
    # The library sets this attribute by the kind of tag, which its types do not know.
    return str(tag.needed)  # type: ignore[attr-defined]


def core_metadata(content: bytes) -> list[str]:
    """Return what is wrong with METADATA or PKG-INFO."""
    try:
        read = Metadata.from_email(content, validate=True)
    except ExceptionGroup as errors:
        return [str(error) for error in errors.exceptions]
    problems = [
        f"PyPI does not know the classifier {one}"
        for one in read.classifiers or []
        if one not in known_classifiers
    ]
    readme = re.sub(r"```.*?```", "", read.description or "", flags=re.DOTALL)
    links = re.findall(r"\]\(([^)\s]+)\)", readme)
    links += re.findall(r"^\[[^\]]+\]: (\S+)", readme, re.MULTILINE)
    problems += [
        f"the link {link} leads nowhere on PyPI"
        for link in links
        if not link.startswith(("https://", "#"))
    ]
    if not links or read.description_content_type != "text/markdown; charset=UTF-8; variant=GFM":
        problems.append("the README is missing")
    for field in ("license_expression", "license_files", "requires_python", "project_urls"):
        if not getattr(read, field):
            problems.append(f"{field} is missing")
    if not (read.author or read.author_email):
        problems.append("author is missing")
    return problems


def sbom(content: bytes) -> list[str]:
    """Return the linked crates that a software bill of materials lacks."""
    listed = {(one["name"], one["version"]) for one in json.loads(content)["components"]}
    return [
        f"the SBOM lacks {name} {number}"
        for name, number in sorted(linked_crates())
        if (name, number) not in listed
    ]


def licences(content: bytes) -> list[str]:
    """Return the linked crates whose licence is missing."""
    text = content.decode()
    return [
        f"the licence of {name} {number} is missing; run `make licences`"
        for name, number in sorted(linked_crates())
        if f"- {name} {number}\n" not in text
    ]


def linked_crates() -> set[tuple[str, str]]:
    """Return name and version of the crates that a wheel contains, other than Tuckbox's own."""
    command = ["cargo", "tree", "--locked", "--package", "tuckbox-python", "--prefix", "none"]
    command += ["--edges", "normal,no-proc-macro"]
    command += [word for target in TARGETS for word in ("--target", target.triple)]
    shown = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return {
        (name, number) for name, number in _LINKED.findall(shown) if not name.startswith("tuckbox-")
    }


def _tracked(folder: str) -> list[str]:
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", folder]
    shown = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in shown.split("\0") if name]
