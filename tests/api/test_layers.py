"""Who may import whom. An arrow that is not drawn here is an arrow that was not meant."""

from __future__ import annotations

import ast
from pathlib import Path

import tuckbox

ARROWS: dict[str, set[str]] = {
    "tuckbox.advice": set(),
    "tuckbox.buffers": {"tuckbox.errors"},
    "tuckbox.compression": {"tuckbox.errors"},
    "tuckbox.objects": {
        "tuckbox.compression",
        "tuckbox.errors",
        "tuckbox.registry",
        "tuckbox.signing",
        "tuckbox.sizes",
    },
    "tuckbox.recipes": {"tuckbox.buffers", "tuckbox.errors"},
    "tuckbox.registry": {"tuckbox.errors", "tuckbox.recipes"},
    "tuckbox.signing": {"tuckbox.errors"},
    "tuckbox.aio": {
        "tuckbox.brief",
        "tuckbox.calls",
        "tuckbox.choices",
        "tuckbox.keys",
        "tuckbox.loops",
        "tuckbox.results",
    },
    "tuckbox.brief": {"tuckbox._engine"},
    "tuckbox.calls": {"tuckbox.brief", "tuckbox.errors", "tuckbox.loops"},
    "tuckbox.connecting": {
        "tuckbox.Cache",
        "tuckbox.advice",
        "tuckbox.cache",
        "tuckbox.compression",
        "tuckbox.errors",
        "tuckbox.memory",
        "tuckbox.objects",
        "tuckbox.remote.cache",
        "tuckbox.signing",
    },
    "tuckbox.remote": set(),
    "tuckbox.remote.cache": {
        "tuckbox.brief",
        "tuckbox.compression",
        "tuckbox.contract",
        "tuckbox.drivers.contract",
        "tuckbox.errors",
        "tuckbox.flights",
        "tuckbox.loading",
        "tuckbox.memoize",
        "tuckbox.memory.core",
        "tuckbox.memory.store",
        "tuckbox.namespaces",
        "tuckbox.objects",
        "tuckbox.organising",
        "tuckbox.remote.store",
        "tuckbox.signing",
        "tuckbox.surface",
    },
    "tuckbox.remote.envelope": {
        "tuckbox.memory.keys",
    },
    "tuckbox.remote.store": {
        "tuckbox.brief",
        "tuckbox.drivers.contract",
        "tuckbox.errors",
        "tuckbox.memory.codec",
        "tuckbox.memory.store",
        "tuckbox.remote.envelope",
    },
    "tuckbox.errors": set(),
    "tuckbox.flights": {
        "tuckbox.brief",
        "tuckbox.calls",
        "tuckbox.contract",
        "tuckbox.keys",
        "tuckbox.loading",
        "tuckbox.loads",
        "tuckbox.loops",
    },
    "tuckbox.greenlets": {"tuckbox.brief", "tuckbox.calls"},
    "tuckbox.choices": set(),
    "tuckbox.arguments": {"tuckbox.errors", "tuckbox.keys", "tuckbox.registry"},
    "tuckbox.makers": {"tuckbox.keys"},
    "tuckbox.loads": {
        "tuckbox.brief",
        "tuckbox.contract",
        "tuckbox.errors",
        "tuckbox.keys",
        "tuckbox.makers",
        "tuckbox.results",
    },
    "tuckbox.loading": {
        "tuckbox.advice",
        "tuckbox.contract",
        "tuckbox.errors",
        "tuckbox.keys",
        "tuckbox.loads",
        "tuckbox.makers",
        "tuckbox.results",
    },
    "tuckbox.memoize": {
        "tuckbox.advice",
        "tuckbox.arguments",
        "tuckbox.contract",
        "tuckbox.errors",
        "tuckbox.keys",
        "tuckbox.loading",
        "tuckbox.loads",
    },
    "tuckbox.contract": {"tuckbox.keys", "tuckbox.results"},
    "tuckbox.keys": set(),
    "tuckbox.loops": set(),
    "tuckbox.logouts": {"tuckbox.errors"},
    # For type checkers, a namespace of any store is one of `tuckbox.cache`.
    "tuckbox.namespaces": {"tuckbox.cache", "tuckbox.errors"},
    "tuckbox.organising": {
        "tuckbox.advice",
        "tuckbox.errors",
        "tuckbox.keys",
        "tuckbox.namespaces",
    },
    "tuckbox.places": {"tuckbox.errors"},
    "tuckbox.results": set(),
    "tuckbox.sizes": {"tuckbox.errors"},
    "tuckbox.limits": {"tuckbox.errors"},
    "tuckbox.surface": {
        "tuckbox.advice",
        "tuckbox.aio",
        "tuckbox.errors",
        "tuckbox.keys",
        "tuckbox.results",
        "tuckbox.views",
    },
    "tuckbox.views": {"tuckbox.keys"},
    "tuckbox.volumes": {"tuckbox._engine", "tuckbox.errors"},
    "tuckbox.cache": {
        "tuckbox._engine",
        "tuckbox.advice",
        "tuckbox.choices",
        "tuckbox.errors",
        "tuckbox.flights",
        "tuckbox.greenlets",
        "tuckbox.limits",
        "tuckbox.loading",
        "tuckbox.compression",
        "tuckbox.logouts",
        "tuckbox.memoize",
        "tuckbox.namespaces",
        "tuckbox.objects",
        "tuckbox.organising",
        "tuckbox.places",
        "tuckbox.signing",
        "tuckbox.sizes",
        "tuckbox.surface",
        "tuckbox.volumes",
    },
    # A store in this process: without the extension.
    "tuckbox.memory.messages": set(),
    "tuckbox.memory.numbers": {"tuckbox.errors", "tuckbox.memory.messages"},
    "tuckbox.memory.keys": {
        "tuckbox.errors",
        "tuckbox.memory.messages",
        "tuckbox.memory.numbers",
    },
    "tuckbox.memory.codec": {
        "tuckbox.errors",
        "tuckbox.memory.keys",
        "tuckbox.memory.messages",
        "tuckbox.memory.numbers",
        "tuckbox.objects",
    },
    "tuckbox.memory.store": {"tuckbox.errors"},
    "tuckbox.memory.core": {
        "tuckbox.advice",
        "tuckbox.choices",
        "tuckbox.contract",
        "tuckbox.errors",
        "tuckbox.keys",
        "tuckbox.memory",
        "tuckbox.memory.messages",
        "tuckbox.memory.numbers",
        "tuckbox.memory.store",
        "tuckbox.objects",
        "tuckbox.results",
    },
    "tuckbox.memory.spaces": {"tuckbox.memory.keys", "tuckbox.memory.store"},
    "tuckbox.memory.cache": {
        "tuckbox.flights",
        "tuckbox.advice",
        "tuckbox.choices",
        "tuckbox.compression",
        "tuckbox.errors",
        "tuckbox.limits",
        "tuckbox.loading",
        "tuckbox.memoize",
        "tuckbox.memory.core",
        "tuckbox.memory.store",
        "tuckbox.namespaces",
        "tuckbox.objects",
        "tuckbox.organising",
        "tuckbox.places",
        "tuckbox.signing",
        "tuckbox.sizes",
        "tuckbox.surface",
    },
    "tuckbox.memory": {"tuckbox.memory.cache"},
    "tuckbox.memory.fallback": {"tuckbox.errors", "tuckbox.memory"},
    "tuckbox": {
        "tuckbox._engine",
        "tuckbox.cache",
        "tuckbox.connecting",
        "tuckbox.errors",
        "tuckbox.keys",
        "tuckbox.loads",
        "tuckbox.memory.fallback",
        "tuckbox.registry",
        "tuckbox.results",
    },
    # A place on a server needs no store of this machine.
    "tuckbox.drivers": set(),
    "tuckbox.drivers.contract": set(),
    "tuckbox.drivers.files": {
        "tuckbox.brief",
        "tuckbox.drivers.contract",
        "tuckbox.drivers.urls",
        "tuckbox.errors",
    },
    "tuckbox.drivers.memcached": {
        "tuckbox.brief",
        "tuckbox.drivers.contract",
        "tuckbox.drivers.urls",
        "tuckbox.errors",
    },
    "tuckbox.drivers.memory": {"tuckbox.drivers.contract", "tuckbox.errors"},
    "tuckbox.drivers.mongodb": {
        "tuckbox.brief",
        "tuckbox.drivers.contract",
        "tuckbox.drivers.places",
        "tuckbox.errors",
    },
    "tuckbox.drivers.null": {
        "tuckbox.drivers.contract",
        "tuckbox.errors",
    },
    "tuckbox.drivers.places": set(),
    "tuckbox.drivers.redis": {
        "tuckbox.brief",
        "tuckbox.drivers.contract",
        "tuckbox.drivers.urls",
        "tuckbox.errors",
    },
    "tuckbox.drivers.sql": {
        "tuckbox.brief",
        "tuckbox.drivers.contract",
        "tuckbox.drivers.places",
        "tuckbox.errors",
    },
    "tuckbox.drivers.urls": {"tuckbox.errors"},
    "tuckbox.testing": set(),
    "tuckbox.testing.drivers": {"tuckbox.drivers.contract", "tuckbox.errors"},
    "tuckbox.integrations": set(),
    "tuckbox.integrations.handles": {
        "tuckbox.brief",
        "tuckbox.cache",
        "tuckbox.choices",
        "tuckbox.errors",
        "tuckbox.integrations.siblings",
        "tuckbox.objects",
        "tuckbox.sizes",
    },
    "tuckbox.integrations.siblings": {"tuckbox.cache", "tuckbox.errors"},
    "tuckbox.integrations.django_checks": {
        "tuckbox.cache",
        "tuckbox.errors",
        "tuckbox.integrations.django_settings",
        "tuckbox.integrations.handles",
        "tuckbox.integrations.siblings",
        "tuckbox.sizes",
    },
    "tuckbox.integrations.django_failures": {"tuckbox.errors"},
    "tuckbox.integrations.django_testing": set(),
    "tuckbox.integrations.django_settings": {
        "tuckbox.errors",
        "tuckbox.integrations.handles",
        "tuckbox.places",
    },
    "tuckbox.integrations.django": {
        "tuckbox.brief",
        "tuckbox.calls",
        "tuckbox.cache",
        "tuckbox.errors",
        "tuckbox.integrations.django_checks",
        "tuckbox.integrations.django_failures",
        "tuckbox.integrations.django_settings",
        "tuckbox.integrations.django_testing",
        "tuckbox.integrations.handles",
        "tuckbox.keys",
        "tuckbox.places",
        "tuckbox.results",
    },
}


def imports_of(source: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names = {f"{module}.{alias.name}" for alias in node.names}
            found |= names if module == "tuckbox" else {module}
    return {name for name in found if name.split(".")[0] in {"tuckbox", "lab"}}


def test_modules_import_what_is_drawn() -> None:
    folder = Path(tuckbox.__file__).parent
    surprises = []
    modules = set()
    for source in sorted(folder.rglob("*.py")):
        parts = source.relative_to(folder).with_suffix("").parts
        module = ".".join(["tuckbox", *(part for part in parts if part != "__init__")])
        modules.add(module)
        surprising = imports_of(source) - ARROWS.get(module, set())
        surprises += [f"{module} -> {target}" for target in sorted(surprising)]
    assert not surprises, f"arrows that nobody drew: {', '.join(surprises)}"
    assert modules == set(ARROWS), "a module that is not in the drawing, or is drawn and gone"
