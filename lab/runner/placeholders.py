"""Placeholders in commands, arguments and settings, such as `{port}`.

Owns how they are filled in, and how the suite's limit is expressed. Must not know where they occur.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from lab.runner.catalogue import CatalogueError, StoreLimits

# The limit of a system that needs a number, where the suite has none.
BYTES_WITHOUT_LIMIT = 1 << 30
# The suites store values of up to 3 MiB.
ITEM_KIB = 4096

_MIB = 1 << 20
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


def limit_words(limits: StoreLimits) -> dict[str, str]:
    """Return `limit_bytes`, `limit_mib` and `item_kib`.

    `limit_mib` is the limit rounded up to whole mebibytes, at least one. `item_kib` is the room for
    the longest value in kibibytes, at most half of `limit_mib`.
    """
    count = limits.bytes or BYTES_WITHOUT_LIMIT
    mib = max(-(-count // _MIB), 1)
    item_kib = min(ITEM_KIB, mib * 1024 // 2)
    return {"limit_bytes": str(count), "limit_mib": str(mib), "item_kib": str(item_kib)}


def limit_step(texts: Iterable[str]) -> int:
    """Return the smallest difference in bytes between two limits that `texts` can express."""
    return _MIB if any("{limit_mib}" in text for text in texts) else 1


def fill(texts: Sequence[str], words: Mapping[str, str]) -> list[str]:
    """Return `texts` with every placeholder replaced. Raises CatalogueError for an unknown one."""

    def word(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in words:
            known = ", ".join(words)
            raise CatalogueError(f"{match.string!r}: unknown placeholder {name!r}. Known: {known}")
        return words[name]

    return [_PLACEHOLDER.sub(word, text) for text in texts]


def fill_values(settings: Mapping[str, str], words: Mapping[str, str]) -> dict[str, str]:
    """Return `settings` with every placeholder in its values replaced. Raises CatalogueError."""
    return dict(zip(settings, fill(list(settings.values()), words), strict=True))
