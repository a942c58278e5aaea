"""Why a cell has no figures. Owns the errors that end one cell and nothing else."""

from __future__ import annotations


class CellError(Exception):
    """A cell went wrong: something died, hung, or could not obey."""


class HostError(CellError):
    """A worker died, hung, or could not obey."""


class ServerError(CellError):
    """A server did not start, or died."""


class NotInstalledError(Exception):
    """What is to be measured is not here, and could be."""


class UnavailableError(Exception):
    """What is to be measured is not here, and cannot be installed."""


class StoppedError(Exception):
    """Filling a store met its time limit, so that there is nothing to measure."""
