"""What programs import from ``diskcache.core``."""

from tuckbox.compat.diskcache.core import Cache
from tuckbox.compat.diskcache.disk import (
    MODE_BINARY,
    MODE_PICKLE,
    MODE_RAW,
    MODE_TEXT,
    Disk,
    JSONDisk,
)
from tuckbox.compat.diskcache.memoizing import args_to_key, full_name
from tuckbox.compat.diskcache.settings import (
    DEFAULT_SETTINGS,
    ENOVAL,
    EVICTION_POLICY,
    UNKNOWN,
    Constant,
    EmptyDirWarning,
    Timeout,
    UnknownFileWarning,
)

__all__ = [
    "DEFAULT_SETTINGS",
    "ENOVAL",
    "EVICTION_POLICY",
    "MODE_BINARY",
    "MODE_PICKLE",
    "MODE_RAW",
    "MODE_TEXT",
    "UNKNOWN",
    "Cache",
    "Constant",
    "Disk",
    "EmptyDirWarning",
    "JSONDisk",
    "Timeout",
    "UnknownFileWarning",
    "args_to_key",
    "full_name",
]
