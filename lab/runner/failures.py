"""The errors that end one cell and nothing else."""

from __future__ import annotations


class CellError(Exception):
    """A cell failed: something died, hung, or reported an error."""


class HostError(CellError):
    """A worker died, hung, or reported an error."""


class ServerError(CellError):
    """A server did not start, or died."""


class NotInstalledError(Exception):
    """The contestant is not installed, but could be."""


class UnavailableError(Exception):
    """The contestant is not installed, and cannot be."""


class StoppedError(Exception):
    """Filling a store reached its time limit, so there is nothing to measure."""
