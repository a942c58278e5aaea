"""The catalogue: suites, contestants, servers, hosts and sources, each found by its folder.

Owns the fields of their TOML files, one module each. Must not start anything.
"""

from lab.runner.catalogue.contestants import (
    Contestant,
    Install,
    SharedBy,
    Weighed,
    contestants,
    server_of,
)
from lab.runner.catalogue.definition import LAB, REPOSITORY, CatalogueError
from lab.runner.catalogue.hosts import Host, host, hosts
from lab.runner.catalogue.servers import Server, servers
from lab.runner.catalogue.sources import Archive, Source, source, sources
from lab.runner.catalogue.suites import (
    FORM_NAMES,
    Form,
    FormName,
    Original,
    Part,
    Phase,
    PhasesSuite,
    Placement,
    ReplaySuite,
    StoreLimits,
    Suite,
    Variant,
    suite,
    suites,
)

__all__ = [
    "FORM_NAMES",
    "LAB",
    "REPOSITORY",
    "Archive",
    "CatalogueError",
    "Contestant",
    "Form",
    "FormName",
    "Host",
    "Install",
    "Original",
    "Part",
    "Phase",
    "PhasesSuite",
    "Placement",
    "ReplaySuite",
    "Server",
    "SharedBy",
    "Source",
    "StoreLimits",
    "Suite",
    "Variant",
    "Weighed",
    "contestants",
    "host",
    "hosts",
    "server_of",
    "servers",
    "source",
    "sources",
    "suite",
    "suites",
]
