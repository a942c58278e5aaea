"""Where everything is printed. Owns the console; must not know what is printed."""

from __future__ import annotations

from rich.console import Console

# Where the output is no terminal nobody tells a width.
WIDTH_ELSEWHERE = 120


def open_console() -> Console:
    """Return the console to print on."""
    found = Console()
    return found if found.is_terminal else Console(width=WIDTH_ELSEWHERE)
