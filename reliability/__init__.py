"""Tuckbox's promises, the commands that try to break them, and the records of the runs.

Knows Tuckbox's tests only by their commands. `families.toml` says what each promise demands and
names the commands that try it.
"""
