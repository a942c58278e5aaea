"""What programs import from ``diskcache.djangocache``."""

from tuckbox.compat.diskcache.djangocache import DjangoCache

__all__ = ["DjangoCache"]
