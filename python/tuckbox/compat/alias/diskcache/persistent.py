"""What programs import from ``diskcache.persistent``."""

from tuckbox.compat.diskcache.deque import Deque
from tuckbox.compat.diskcache.index import Index

__all__ = ["Deque", "Index"]
