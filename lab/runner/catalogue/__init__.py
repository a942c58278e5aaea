"""What there is to run: suites, contestants, servers and hosts, each discovered from its folder.

Owns the shape of their TOML files, one module each. Must not start anything.
"""

from lab.runner.catalogue.contestants import Contestant, Install, contestants, server_of
from lab.runner.catalogue.definition import LAB, REPOSITORY, CatalogueError
from lab.runner.catalogue.hosts import Host, host, hosts
from lab.runner.catalogue.servers import Server, servers
from lab.runner.catalogue.suites import (
    FORM_NAMES,
    Form,
    FormName,
    Original,
    Part,
    Phase,
    PhasesSuite,
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
    "ReplaySuite",
    "Server",
    "StoreLimits",
    "Suite",
    "Variant",
    "contestants",
    "host",
    "hosts",
    "server_of",
    "servers",
    "suite",
    "suites",
]
