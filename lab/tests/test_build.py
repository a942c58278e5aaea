"""Builds from source: nothing unverified is unpacked, nothing half-built is used."""

from __future__ import annotations

import hashlib
import io
import sys
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

from lab.runner import built
from lab.runner.catalogue import Archive, Server, Source, source, sources
from lab.runner.install import Needs, install
from lab.runner.install.build import build
from lab.runner.servers import free_port
from lab.tests.small import run_suite, suite

# Records that it ran, fails while the file `broken` exists, and installs a program.
SCRIPT = """
echo run >> "$2/ran"
echo "one line"
if [ -e "$2/broken" ]; then echo "the last line" >&2; exit 3; fi
mkdir -p "$1/bin" && cp program "$1/bin/program"
"""
MEMBERS = {"thing-1/build.sh": SCRIPT, "thing-1/program": "#!/bin/sh\n"}


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that LAB_SOURCES names; builds go to a folder next to it."""
    folder = tmp_path / "copies"
    folder.mkdir()
    monkeypatch.setenv("LAB_SOURCES", str(folder))
    monkeypatch.setattr(built, "FOLDER", tmp_path / "built")
    return folder


@pytest.fixture(params=["filter", "no filter"])
def unpacker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Provide or hide a feature that CPython before 3.11.4 lacks."""
    if request.param == "no filter":
        if sys.version_info >= (3, 12):
            pytest.skip("this Python always has the filter")
        monkeypatch.delattr(tarfile, "data_filter")


@pytest.fixture
def upstream(tmp_path: Path) -> Iterator[str]:
    """Serve the folder `upstream`, and return its address."""
    folder = tmp_path / "upstream"
    folder.mkdir()
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def packed(members: dict[str, str], *others: tarfile.TarInfo) -> bytes:
    """Return an archive with these files, and with other members without content."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:xz") as archive:
        for name, text in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
        for member in others:
            archive.addfile(member)
    return content.getvalue()


def listed(content: bytes, url: str = "", name: str = "thing-1.tar.xz") -> Archive:
    return Archive(name, hashlib.sha256(content).hexdigest(), url)


def thing(*archives: Archive, witness: Path) -> Source:
    """Return a source whose build leaves its traces in `witness`."""
    return Source(
        title="Thing",
        version="1",
        licence="none",
        archives=list(archives),
        commands=[["sh", "build.sh", "{prefix}", str(witness)]],
        name="thing",
    )


def runs(witness: Path) -> int:
    ran = witness / "ran"
    return len(ran.read_text().splitlines()) if ran.exists() else 0


def test_a_verified_copy_is_built_once(tmp_path: Path, copies: Path, unpacker: None) -> None:
    content = packed(MEMBERS)
    (copies / "thing-1.tar.xz").write_bytes(content)
    one = thing(listed(content), witness=tmp_path)
    assert built.archive_of(one) == ""
    steps = [build(one), build(one)]
    assert [(step.reason, step.new) for step in steps] == [("", True), ("", False)]
    assert runs(tmp_path) == 1
    assert built.archive_of(one) == "thing-1.tar.xz"
    assert (built.prefix(one) / "bin" / "program").read_text() == "#!/bin/sh\n"
    # Only the build and its log are left.
    left = {path.name for path in built.FOLDER.iterdir()}
    assert left == {"thing-1", "thing-1.log"}


def test_another_recipe_is_built_anew(tmp_path: Path, copies: Path) -> None:
    content = packed(MEMBERS)
    (copies / "thing-1.tar.xz").write_bytes(content)
    one = thing(listed(content), witness=tmp_path)
    build(one)
    other = msgspec.structs.replace(one, commands=[*one.commands, ["true"]])
    assert built.archive_of(other) == ""
    assert build(other).new
    assert runs(tmp_path) == 2


def test_a_copy_with_another_sum_is_refused_before_it_is_unpacked(
    tmp_path: Path, copies: Path
) -> None:
    other = packed(MEMBERS)
    (copies / "thing-1.tar.xz").write_bytes(other)
    step = build(thing(listed(b"expected"), witness=tmp_path))
    assert step.failed
    assert hashlib.sha256(other).hexdigest() in step.reason
    assert listed(b"expected").sha256 in step.reason
    assert runs(tmp_path) == 0
    # A file that is not an archive is refused for its SHA-256, before it is opened.
    (copies / "thing-1.tar.xz").write_bytes(b"no archive")
    assert "has the SHA-256" in build(thing(listed(b"expected"), witness=tmp_path)).reason


def test_any_of_the_archives_will_do(tmp_path: Path, copies: Path) -> None:
    content = packed(MEMBERS)
    (copies / "copy.tar.xz").write_bytes(content)
    archives = (listed(b"released"), listed(content, name="copy.tar.xz"))
    one = thing(*archives, witness=tmp_path)
    assert build(one).reason == ""
    assert built.version_of("1.0", "") == "1.0"
    assert built.archive_of(one) == "copy.tar.xz"


def test_what_has_no_copy_is_downloaded(tmp_path: Path, copies: Path, upstream: str) -> None:
    content = packed(MEMBERS)
    (tmp_path / "upstream" / "v1.tar.xz").write_bytes(content)
    one = thing(listed(content, f"{upstream}/v1.tar.xz"), witness=tmp_path)
    assert build(one).reason == ""
    assert runs(tmp_path) == 1


def test_a_download_with_another_sum_is_refused(
    tmp_path: Path, copies: Path, upstream: str
) -> None:
    (tmp_path / "upstream" / "v1.tar.xz").write_bytes(packed(MEMBERS))
    step = build(thing(listed(b"expected", f"{upstream}/v1.tar.xz"), witness=tmp_path))
    assert step.failed
    assert "has the SHA-256" in step.reason
    assert runs(tmp_path) == 0


def test_a_missing_archive_without_network_says_which_file_helps(
    tmp_path: Path, copies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = packed(MEMBERS)
    url = f"http://127.0.0.1:{free_port()}/v1.tar.xz"
    one = thing(listed(content, url), witness=tmp_path)
    monkeypatch.setattr(built, "source", {"thing": one}.__getitem__)
    fields = {"title": "Thing", "program": "program", "command": ["{program}"]}
    server = msgspec.convert({**fields, "install": {"build": "thing"}}, Server)
    step = build(one)
    assert (step.failed, step.unavailable) == (False, True)
    for said in ("Connection refused", url, "thing-1.tar.xz", listed(content).sha256):
        assert said in step.reason
    assert "set LAB_SOURCES to that folder, and run: python -m lab install" in step.reason
    assert built.why_server_absent(server) == step.reason
    assert built.program(server) == ""
    # With the file present, it is built, and the reason disappears.
    (copies / "thing-1.tar.xz").write_bytes(content)
    assert build(one).reason == ""
    assert built.why_server_absent(server) == ""
    assert built.program(server) == str(built.prefix(one) / "bin" / "program")


def link(name: str, target: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    return member


@pytest.mark.parametrize(
    ("members", "others"),
    [
        ({**MEMBERS, "../outside": "evil"}, ()),
        ({**MEMBERS, "thing-1/../../../outside": "evil"}, ()),
        (MEMBERS, (link("thing-1/way", "../../.."), link("thing-1/way/outside", "/etc/passwd"))),
        (MEMBERS, (link("thing-1/way", "/etc/passwd"),)),
    ],
    ids=["parent", "through the folder", "link to a parent", "absolute link"],
)
def test_an_archive_that_reaches_out_of_its_folder_is_refused(
    tmp_path: Path,
    copies: Path,
    unpacker: None,
    members: dict[str, str],
    others: tuple[tarfile.TarInfo, ...],
) -> None:
    content = packed(members, *others)
    (copies / "thing-1.tar.xz").write_bytes(content)
    step = build(thing(listed(content), witness=tmp_path))
    assert "cannot be unpacked" in step.reason
    assert any(said in step.reason for said in ("outside the destination", "an absolute path"))
    assert runs(tmp_path) == 0
    assert list(tmp_path.rglob("outside")) == []


def test_an_archive_must_have_one_folder(tmp_path: Path, copies: Path) -> None:
    content = packed({**MEMBERS, "other/file": ""})
    (copies / "thing-1.tar.xz").write_bytes(content)
    assert "2 entries" in build(thing(listed(content), witness=tmp_path)).reason


def test_a_build_that_fails_shows_its_last_lines_and_is_tried_again(
    tmp_path: Path, copies: Path
) -> None:
    content = packed(MEMBERS)
    (copies / "thing-1.tar.xz").write_bytes(content)
    (tmp_path / "broken").touch()
    one = thing(listed(content), witness=tmp_path)
    for _ in range(2):
        step = build(one)
        assert step.failed
        assert step.reason.endswith("thing-1.log; one line; the last line")
        assert built.archive_of(one) == ""
    assert (built.FOLDER / "thing-1.log").read_text() == "one line\nthe last line\n"
    (tmp_path / "broken").unlink()
    assert build(one).reason == ""
    assert runs(tmp_path) == 3


def test_a_build_that_was_broken_off_begins_anew(tmp_path: Path, copies: Path) -> None:
    content = packed(MEMBERS)
    (copies / "thing-1.tar.xz").write_bytes(content)
    one = thing(listed(content), witness=tmp_path)
    for folder in (built.prefix(one), built.FOLDER / "thing-1.tree"):
        folder.mkdir(parents=True)
        (folder / "stray").touch()
    assert built.archive_of(one) == ""
    assert build(one).reason == ""
    assert list(built.FOLDER.rglob("stray")) == []


def test_a_command_that_is_not_there_fails_the_build(tmp_path: Path, copies: Path) -> None:
    content = packed(MEMBERS)
    (copies / "thing-1.tar.xz").write_bytes(content)
    one = msgspec.structs.replace(
        thing(listed(content), witness=tmp_path), commands=[["no-such-command-of-anyone"]]
    )
    assert "cannot be run" in build(one).reason


def test_a_build_knows_nothing_of_the_flags_of_whoever_builds(
    tmp_path: Path, copies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MAKEFLAGS", "CFLAGS", "PERL_MM_OPT", "LD_LIBRARY_PATH"):
        monkeypatch.setenv(name, "-odd")
    content = packed({"thing-1/build.sh": 'env > "$2/environment"'})
    (copies / "thing-1.tar.xz").write_bytes(content)
    assert build(thing(listed(content), witness=tmp_path)).reason == ""
    assert "-odd" not in (tmp_path / "environment").read_text()


def test_a_row_without_its_build_is_missing_and_without_an_archive_unavailable(
    tmp_path: Path, copies: Path
) -> None:
    def outcome() -> tuple[str, str]:
        (cell,) = run_suite(data, "served:unbuilt", of=suite(1))
        return cell.outcome, cell.reason

    data = tmp_path / "data"
    data.mkdir()
    said = "no-such-server is not on the PATH"
    assert outcome() == ("missing", f"{said}; run: python -m lab install")
    built.FOLDER.mkdir()
    built.note_absence(source("valkey"), "put the file there")
    assert outcome() == ("unavailable", f"{said}: put the file there")


def test_the_installer_builds_by_name(copies: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Every listed archive as a copy with a wrong SHA-256: refused without a download.
    for name in sources():
        for archive in source(name).archives:
            (copies / archive.name).write_bytes(b"something else")
    steps = list(install(Needs(build=frozenset(sources()))))
    assert [step.what for step in steps] == [
        f"{one.title} {one.version} from source" for one in sources().values()
    ]
    assert all("has the SHA-256" in step.reason for step in steps)


def test_upstream_is_asked_by_https_alone() -> None:
    for one in sources().values():
        for archive in one.archives:
            assert archive.url == "" or archive.url.startswith("https://")
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"name": "a", "sha256": "0" * 64, "url": "http://a/b"}, Archive)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"name": "a", "sha256": "0" * 63}, Archive)
