"""A cache in dictionaries, for the threads of one process.

Has the interface of `tuckbox.Cache` and the same results and errors, in pure Python. Where
Tuckbox's extension is not installed, `tuckbox.Cache` is this one. Must not import the extension.

Example:
    >>> from tuckbox import memory
    >>> cache = memory.Cache(max_entries=1000)
    >>> cache.set("user:42", {"name": "Ada"}, ttl=300)
    >>> cache.get("user:42")
    {'name': 'Ada'}
"""

from tuckbox.memory.cache import Cache

__all__ = ["Cache"]
