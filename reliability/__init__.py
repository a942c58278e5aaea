"""What Tuckbox promises, the commands that try to break it, and the records of what came out.

Knows Tuckbox's tests by their commands alone: what a promise demands is in `families.toml`, how it
is tried is in the commands named there.
"""
