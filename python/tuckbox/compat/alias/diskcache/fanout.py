"""What programs import from ``diskcache.fanout``."""

from tuckbox.compat.diskcache.fanout import FanoutCache

__all__ = ["FanoutCache"]
