"""Placeholders in commands, arguments and settings, such as `{port}`.

Owns how they are filled in, and what the suite's limit is in words a server understands. Must not
know where they occur.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from lab.runner.catalogue import CatalogueError, StoreLimits

# What a system that needs a number is told where the suite has no limit.
BYTES_WITHOUT_LIMIT = 1 << 30

_MIB = 1 << 20
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


def limit_words(limits: StoreLimits) -> dict[str, str]:
    """Return `limit_bytes` and `limit_mib`, whole mebibytes that are no less, at least one."""
    count = limits.bytes or BYTES_WITHOUT_LIMIT
    return {"limit_bytes": str(count), "limit_mib": str(max(-(-count // _MIB), 1))}


def fill(texts: Sequence[str], words: Mapping[str, str]) -> list[str]:
    """Return `texts` with every placeholder replaced. Raises CatalogueError for an unknown one."""

    def word(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in words:
            known = ", ".join(words)
            raise CatalogueError(f"{match.string!r} has a placeholder that is none of {known}")
        return words[name]

    return [_PLACEHOLDER.sub(word, text) for text in texts]


def fill_values(settings: Mapping[str, str], words: Mapping[str, str]) -> dict[str, str]:
    """Return `settings` with every placeholder in its values replaced. Raises CatalogueError."""
    return dict(zip(settings, fill(list(settings.values()), words), strict=True))
