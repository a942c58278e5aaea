"""Every contestant's folder is complete, pinned and described; malformed ones are refused."""

from __future__ import annotations

import ast
import os
import shutil
import sys
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import msgspec
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lab.runner import built, catalogue
from lab.runner.catalogue import (
    LAB,
    CatalogueError,
    Contestant,
    Install,
    PhasesSuite,
    ReplaySuite,
    Server,
    Source,
    StoreLimits,
    Suite,
    host,
    server_of,
)
from lab.runner.catalogue.definition import unknown
from lab.runner.hosts import command_of
from lab.runner.placeholders import fill, fill_values, limit_step, limit_words
from lab.runner.plan import Choice, cells
from lab.tests.small import contestant, suite, variant
from rig.cores import Cores

CONTESTANTS = catalogue.contestants()
FOLDERS = sorted({Path(one.folder) for one in CONTESTANTS.values()})
SUITES = catalogue.suites()
SERVERS = catalogue.servers()


def definition(folder: Path, name: str, text: str) -> Path:
    """Write a contestant with the usual remaining fields, and return its folder."""
    lines = [
        line
        for line in (
            'title = "Odd"',
            'what = "Odd."',
            'host = "python"',
            'shared_by = "process"',
            "survives_restart = false",
            "evicts = false",
            "counts = []",
            "cannot = []",
            'suites = ["smoke"]',
        )
        if f"\n{line.split()[0]} =" not in f"\n{text}"
    ]
    path = folder / "contestants" / name / "contestant.toml"
    path.parent.mkdir(parents=True)
    # A form's table must be last.
    path.write_text("\n".join([*lines, text]), "utf-8")
    return folder / "contestants"


@pytest.mark.parametrize("one", CONTESTANTS.values(), ids=CONTESTANTS)
def test_a_contestant_is_whole(one: Contestant) -> None:
    folder = Path(one.folder)
    assert one.name.partition(":")[0] == folder.name
    assert one.title
    assert one.what.endswith(".")
    assert host(one.host).command
    assert (folder / (host(one.host).adapter or "Cargo.toml")).is_file()
    assert one.install.cargo == (host(one.host).adapter == "")
    if one.host != "python":
        assert folder.name.startswith(f"{one.host}_")
    assert set(one.counts) <= {"entries", "bytes"}
    # The runner knows every placeholder.
    words = limit_words(StoreLimits(bytes=1 << 20))
    assert command_of(host(one.host), one, StoreLimits(bytes=1 << 20))
    fill_values(one.settings, words)
    if one.server:
        assert server_of(one).program


@pytest.mark.parametrize("folder", FOLDERS, ids=[folder.name for folder in FOLDERS])
def test_a_contestants_readme_tells_its_decisions(folder: Path) -> None:
    lines = (folder / "README.md").read_text("utf-8").splitlines()
    assert lines[0] == f"# {folder.name}"
    assert len(lines) > 2


@pytest.mark.parametrize("folder", FOLDERS, ids=[folder.name for folder in FOLDERS])
def test_whatever_stores_is_in_the_smoke_suite(folder: Path) -> None:
    rows = [one for one in CONTESTANTS.values() if one.folder == str(folder) and one.stores]
    assert not rows or any("smoke" in one.suites for one in rows)


@pytest.mark.parametrize("one", SERVERS.values(), ids=SERVERS)
def test_a_server_is_whole(one: Server) -> None:
    assert (Path(one.folder) / "README.md").is_file()
    assert one.tcp is not None or one.socket is not None
    words = {"port": "1", "socket": "/s", "folder": "/f", "template": "/t", "server": "/v"}
    words |= {"jars": "/j", "program": "/p", "python": "/p", **limit_words(StoreLimits())}
    commands = [
        [one.program],
        one.command,
        one.tcp,
        one.socket,
        one.limited,
        one.stock,
        one.root,
        *one.prepare,
    ]
    for command in commands:
        fill(command or [], words)
    fill_values(one.settings, words)
    # Only on loopback.
    assert one.tcp is None or any("127.0.0.1" in text for text in [*one.command, *one.tcp])


@pytest.mark.parametrize("one", catalogue.sources().values(), ids=catalogue.sources())
def test_a_source_is_whole(one: Source) -> None:
    readme = (LAB / "sources" / one.name / "README.md").read_text("utf-8")
    assert one.licence in readme
    words = {"prefix": "/p", "cores": "1"}
    commands = [fill(command, words) for command in one.commands]
    assert any("/p" in text for command in commands for text in command)
    # The names of a version's archives contain its number and differ.
    names = [archive.name for archive in one.archives]
    assert len(set(names)) == len(names)
    assert all(one.version in name for name in names)
    # A contestant or server needs it.
    users = [row.install.build for row in CONTESTANTS.values()]
    assert one.name in [*users, *(server.install.build for server in SERVERS.values())]


def test_rows_are_ordered_by_host_then_name_and_null_is_last() -> None:
    order = [(not one.stores, one.host, one.name) for one in CONTESTANTS.values()]
    assert order == sorted(order)
    assert order[-1][0]


def test_every_host_has_a_null() -> None:
    nulls = {one.host for one in CONTESTANTS.values() if not one.stores}
    assert nulls == set(catalogue.hosts())


@pytest.mark.parametrize("one", SUITES.values(), ids=SUITES)
def test_every_part_of_a_suite_has_rows_and_its_labels_name_some(one: Suite) -> None:
    choice = Choice("smoke" if one.name == "smoke" else "quick", list(CONTESTANTS.values()))
    if isinstance(one, PhasesSuite):
        for part in one.parts:
            assert choice.rows(one, part), part.name
            assert set(part.only) <= set(CONTESTANTS)
        assert set(one.labels) <= set(CONTESTANTS)
    assert cells(one, choice, Cores(0, 1))


def test_a_form_may_run_some_variants_and_a_choice_overrules_it() -> None:
    one = SUITES["network-2011"]
    assert isinstance(one, PhasesSuite)
    rows = [CONTESTANTS["php_apcu:limited"]]

    def variants(choice: Choice) -> set[tuple[str, str]]:
        return {(name.part, name.variant) for name in cells(one, choice, Cores(0, 1))}

    assert {name for part, name in variants(Choice("quick", rows)) if part == "main"} == set(
        one.form("quick").variants
    )
    assert variants(Choice("quick", rows, variants=("4 KB",))) >= {("main", "4 KB")}
    everything = {variant.name for variant in one.parts[0].variants}
    assert {name for part, name in variants(Choice("full", rows)) if part == "main"} == everything
    # A part with none of them runs all its own variants.
    django = SUITES["django"]
    rows = [CONTESTANTS["django_tuckbox"]]
    assert "160 bytes" in {
        name.variant for name in cells(django, Choice("quick", rows), Cores(0, 1))
    }


def test_the_quick_form_replays_fewer_capacities() -> None:
    one = SUITES["web07"]
    rows = [CONTESTANTS["tuckbox"]]
    assert len(cells(one, Choice("quick", rows), Cores(0, 1))) == 1
    assert len(cells(one, Choice("middle", rows), Cores(0, 1))) == 3


def test_a_form_that_names_no_variant_of_its_suite_is_refused(tmp_path: Path) -> None:
    text = (LAB / "suites" / "chi-2010.toml").read_text("utf-8")
    assert 'variants = ["medium"]' in text
    (tmp_path / "chi-2010.toml").write_text(text.replace('["medium"]', '["middling"]'), "utf-8")
    with pytest.raises(CatalogueError, match="names the variant 'middling', which no part has"):
        catalogue.suites(tmp_path)


def locked(*names: str) -> set[str]:
    lines = {line for name in names for line in (LAB / name).read_text("utf-8").splitlines()}
    return {line for line in lines if "==" in line}


LOCKS = ("requirements.lock", "requirements-contestants.lock")


@pytest.mark.parametrize("one", CONTESTANTS.values(), ids=CONTESTANTS)
def test_what_is_installed_is_pinned_as_in_a_lock(one: Contestant) -> None:
    for requirement in one.install.pip:
        # The version of this repository's own package is that of the commit.
        assert requirement in locked(*LOCKS) or requirement == "tuckbox"


def meant_here(line: str) -> bool:
    marker = Requirement(line).marker
    return marker is None or marker.evaluate()


@pytest.mark.parametrize(
    "requirement", sorted(filter(meant_here, locked("requirements-contestants.lock")))
)
def test_whatever_a_pinned_package_needs_is_pinned_as_well(requirement: str) -> None:
    pinned = {canonicalize_name(Requirement(line).name) for line in locked(*LOCKS)}
    try:
        needed = requires(Requirement(requirement).name) or []
    except PackageNotFoundError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"{error.name} is not installed here")
    for one in map(Requirement, needed):
        if one.marker is None or one.marker.evaluate({"extra": ""}):
            assert canonicalize_name(one.name) in pinned, one


@pytest.mark.parametrize("folder", FOLDERS, ids=[folder.name for folder in FOLDERS])
def test_an_adapter_imports_nothing_that_its_contestant_does_not_pin(folder: Path) -> None:
    check_imports(next(row for row in CONTESTANTS.values() if row.folder == str(folder)))


def test_a_contestant_without_pins_is_noticed(tmp_path: Path) -> None:
    folder = definition(tmp_path, "odd", "")
    (folder / "odd" / "adapter.py").write_text("import cachebox", "utf-8")
    (row,) = catalogue.contestants(folder).values()
    with pytest.raises(AssertionError, match="imports cachebox"):
        check_imports(row)
    pinned = msgspec.structs.replace(row, install=Install(pip=["cachebox==6.2.10"]))
    check_imports(pinned)


def check_imports(row: Contestant) -> None:
    """Fail if the adapter imports a package without a pinned requirement."""
    path = Path(row.folder, "adapter.py")
    packages = {name.partition(".")[0] for name in imports_of(path)} if path.exists() else set()
    there = {canonicalize_name(Requirement(one).name) for one in row.install.pip}
    for package in packages - sys.stdlib_module_names - {"lab"}:
        assert canonicalize_name(package) in there, f"{path} imports {package}"


def imports_of(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


OURS = ("tuckbox", "django_tuckbox", "native_tuckbox", "tuckbox_tiers")


def test_the_lab_knows_our_contestant_by_its_folder_alone() -> None:
    ours = {LAB / "contestants" / name for name in OURS}
    # Other tests may be building in the two folders.
    folders = {one for one in LAB.iterdir() if one.is_dir()} - {built.FOLDER, LAB / "target"}
    own = [path for folder in folders for path in folder.rglob("*.py")]
    for path in (*LAB.glob("*.py"), *own):
        if path.parent not in ours:
            packages = {name.partition(".")[0] for name in imports_of(path)}
            assert "tuckbox" not in packages, path


def test_the_runner_never_imports_what_it_judges() -> None:
    for folder in ("runner", "report", "commands"):
        for path in (LAB / folder).rglob("*.py"):
            judged = {
                name
                for name in imports_of(path)
                if name.startswith(("lab.contestants", "lab.hosts", "lab.tests"))
            }
            assert not judged, path


def test_the_references_of_a_replay_exist() -> None:
    one = SUITES["web07"]
    assert isinstance(one, ReplaySuite)
    assert set(one.replay.references) <= set(CONTESTANTS)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('colour = "red"', "unknown field `colour`"),
        ('suites = ["djngo"]', r"there is no suite 'djngo', did you mean 'django'\? Known:"),
        ('suites = ["django/mian"]', r"no part of django 'mian', did you mean 'main'"),
        ('host = "ruby"', r"there is no host 'ruby'.* Known: native, perl, php, python"),
        ('server = "memcachd"', r"there is no server 'memcachd'"),
        ('[install]\nbuild = "valky"', r"there is no source 'valky', did you mean 'valkey'\?"),
        ('weighed = "server"', r"there is no server ''"),
        ('[[forms]]\nname = "a"\nhue = "red"', "unknown field `hue`"),
        ('[[forms]]\nname = "a"\n[[forms]]\nname = "a"', "two forms have the same name"),
        ("shared_by = ", "Invalid value"),
        ("evicts = true", "odd: evicts is true, but counts is empty"),
        ("max_stale_s = 5.0", "odd: max_stale_s needs shared_by = 'network'"),
        ("max_stale_s = -1.0", ">= 0.0"),
        ('max_stale_s = "never"', "Invalid enum value 'never'"),
    ],
)
def test_an_odd_contestant_is_refused_with_its_file(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(CatalogueError, match=rf"(?s)odd/contestant\.toml: .*{says}"):
        catalogue.contestants(definition(tmp_path, "odd", text))


@pytest.mark.parametrize("fact", ["shared_by", "survives_restart", "evicts"])
def test_a_contestant_must_answer_for_what_it_can_be_chosen(tmp_path: Path, fact: str) -> None:
    folder = definition(tmp_path, "odd", "")
    path = folder / "odd" / "contestant.toml"
    lines = path.read_text("utf-8").splitlines()
    path.write_text("\n".join(line for line in lines if not line.startswith(fact)), "utf-8")
    with pytest.raises(CatalogueError, match=f"odd/contestant.toml: .*`{fact}`"):
        catalogue.contestants(folder)


@pytest.mark.parametrize(
    ("transport", "shared_by", "is_right"),
    [
        ("tcp", "network", True),
        ("tcp", "machine", False),
        ("socket", "machine", True),
        ("socket", "network", False),
        ("", "machine", True),
        ("", "network", False),
    ],
)
def test_only_a_server_reached_by_tcp_is_shared_by_a_network(
    tmp_path: Path, transport: str, shared_by: str, is_right: bool
) -> None:
    shutil.copytree(LAB / "servers" / "memcached", tmp_path / "servers" / "memcached")
    text = f'server = "memcached"\ntransport = "{transport}"\n' if transport else ""
    folder = definition(tmp_path, "odd", f'{text}shared_by = "{shared_by}"')
    if is_right:
        (row,) = catalogue.contestants(folder).values()
        assert row.is_shared
    else:
        with pytest.raises(CatalogueError, match=f"shared_by = '{shared_by}' is wrong with"):
            catalogue.contestants(folder)


def test_servers_are_those_beside_the_contestants(tmp_path: Path) -> None:
    folder = definition(
        tmp_path, "odd", 'server = "memcached"\ntransport = "socket"\nshared_by = "machine"'
    )
    shutil.copytree(LAB / "servers" / "memcached", tmp_path / "servers" / "memcached")
    (row,) = catalogue.contestants(folder).values()
    assert server_of(row).folder == str(tmp_path / "servers" / "memcached")


@pytest.mark.parametrize(
    ("text", "weighed"),
    [
        ('shared_by = "process"', "client"),
        ('shared_by = "machine"', "file"),
        ('shared_by = "network"\nserver = "memcached"', "server"),
        ('shared_by = "process"\nweighed = "file"', "file"),
        ('[[forms]]\nname = "a"\nweighed = "file"', "file"),
    ],
)
def test_bytes_are_measured_where_the_data_lives(tmp_path: Path, text: str, weighed: str) -> None:
    shutil.copytree(LAB / "servers" / "memcached", tmp_path / "servers" / "memcached")
    (row,) = catalogue.contestants(definition(tmp_path, "odd", text)).values()
    assert row.weighed_by == weighed


def test_a_server_that_has_no_socket_cannot_be_reached_by_one(tmp_path: Path) -> None:
    shutil.copytree(LAB / "servers" / "mongod", tmp_path / "servers" / "mongod")
    folder = definition(tmp_path, "odd", 'server = "mongod"\ntransport = "socket"')
    with pytest.raises(CatalogueError, match="'mongod' cannot be reached by socket"):
        catalogue.contestants(folder)


def test_a_form_replaces_what_it_names_and_adds_to_the_settings(tmp_path: Path) -> None:
    text = """settings = { colour = "red", size = "small" }
        [[forms]]
        name = "big"
        what = "Big."
        settings = { size = "big" }
        block = 1
        values = ["complex"]
        [[forms]]
        name = "small"
    """
    rows = catalogue.contestants(definition(tmp_path, "odd", text))
    assert list(rows) == ["odd:big", "odd:small"]
    big, small = rows.values()
    assert big.settings == {"colour": "red", "size": "big"}
    assert (big.what, big.block, big.values) == ("Big.", 1, ["complex"])
    assert small.settings == {"colour": "red", "size": "small"}
    assert (small.what, small.block, small.values) == ("Odd.", 256, ["binary"])


def test_what_takes_part_depends_on_part_sizing_and_values() -> None:
    chosen = suite(1)
    (part,) = chosen.parts
    row = contestant("honest")
    assert row.takes_part("small", part)
    assert not row.takes_part("other", part)
    of_part = msgspec.structs.replace(row, suites=["small/main", "other/elsewhere"])
    assert of_part.takes_part("small", part)
    assert not of_part.takes_part("other", part)
    assert row.takes_part("small", msgspec.structs.replace(part, only=[row.name]))
    assert not row.takes_part("small", msgspec.structs.replace(part, only=["other"]))
    stock = msgspec.structs.replace(row, sizing="stock")
    assert not stock.takes_part("small", part)
    assert stock.takes_part("small", suite(1, stock=True).parts[0])
    (complex_values,) = suite(1, variants=[variant(value="complex")]).parts[0].variants
    assert msgspec.structs.replace(row, values=["complex"]).takes(complex_values)
    assert not msgspec.structs.replace(row, values=["binary"]).takes(complex_values)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"shares": {"get": 0.5}}, "must add up to 1"),
        ({"operations": 5, "operations_per_key": 5}, "either operations or operations_per_key"),
        ({"steps": [1], "passes": ["throughput"]}, "steps but no latency pass"),
        ({"absent": 1.5}, "out of range"),
    ],
)
def test_an_odd_phase_is_refused(fields: dict[str, object], says: str) -> None:
    phase = {"name": "odd", "operations": 5, "shares": {"get": 1.0}}
    if "operations_per_key" not in fields:
        phase |= {"passes": ["latency"]}
    with pytest.raises(msgspec.ValidationError, match=says):
        suite(1, steps=[{**phase, **fields}])


def test_a_suite_without_a_form_says_which_it_has() -> None:
    one = SUITES["smoke"]
    assert isinstance(one, PhasesSuite)
    with pytest.raises(CatalogueError, match="no form 'full', only smoke"):
        one.form("full")


def test_a_missing_suite_is_told_with_the_closest() -> None:
    with pytest.raises(CatalogueError, match="no suite 'tokyo', did you mean 'tokyo-2009'"):
        catalogue.suite("tokyo")


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    assert str(unknown("thing", "xyz", ["b", "a"])) == "there is no thing 'xyz'. Known: a, b"


def test_placeholders_are_filled_and_unknown_ones_refused() -> None:
    words = limit_words(StoreLimits(bytes=720_896))
    assert fill(["-m", "{limit_mib}M", "{limit_bytes}"], words) == ["-m", "1M", "720896"]
    assert limit_words(StoreLimits())["limit_mib"] == "1024"
    # memcached needs room for two items.
    assert [limit_words(StoreLimits(bytes=mib << 20))["item_kib"] for mib in (1, 4, 8, 64)] == [
        "512",
        "2048",
        "4096",
        "4096",
    ]
    # Other braces are kept: programs use them too.
    assert fill(['{"a": 1}', "${HOME}x", "{}"], {"HOME": "h"}) == ['{"a": 1}', "${HOME}x", "{}"]
    with pytest.raises(CatalogueError, match="Known: limit_bytes, limit_mib"):
        fill(["{limit_mb}"], words)


def test_limits_are_told_apart_in_bytes_or_in_whole_mebibytes() -> None:
    assert limit_step(["-m", "{limit_mib}"]) == 1 << 20
    assert limit_step(["--maxmemory", "{limit_bytes}"]) == 1
