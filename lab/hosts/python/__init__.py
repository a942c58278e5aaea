"""The Python host: one process, one worker, told what to do over its standard input."""

from time import monotonic_ns

# Imported before anything else of the host.
STARTED_NS = monotonic_ns()
