"""The console. Owns its width; must not know what is printed."""

from __future__ import annotations

from rich.console import Console

# Output that is no terminal has no width of its own.
WIDTH_ELSEWHERE = 120


def open_console() -> Console:
    """Return the console to print on."""
    found = Console()
    return found if found.is_terminal else Console(width=WIDTH_ELSEWHERE)
