"""The Python host: one process, one worker, controlled through its standard input."""

from time import monotonic_ns

# Imported before anything else of the host.
STARTED_NS = monotonic_ns()
