"""Builds, audits and tries what users install. `python -m wheels` lists the commands."""
