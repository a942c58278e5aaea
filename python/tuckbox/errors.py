"""Every exception that Tuckbox raises, and its one warning.

::

    TuckboxError
    ├── CacheFileError (OSError)            the file, or the system beneath it, refused
    │   ├── CacheOpenError                  opening or making the file
    │   │   ├── DirectoryMissing (FileNotFoundError)
    │   │   ├── FileMissing (FileNotFoundError)
    │   │   ├── AccessDenied (PermissionError)
    │   │   ├── UnsafeFile                  others can change or replace it
    │   │   ├── NetworkFileSystem           memory is not shared there
    │   │   ├── NotAFile                    a directory, a socket ...
    │   │   ├── NotACache                   somebody else's file
    │   │   ├── VersionMismatch             a cache of another format
    │   │   ├── CacheCorrupt                a cache whose header does not prove itself
    │   │   ├── TooManyProcesses
    │   │   └── TooManyCaches
    │   ├── CacheFull                       no room could be made
    │   └── CacheLost                       the file behind a handle has gone
    ├── CacheClosed (ValueError)
    ├── CacheReadOnly                       a change was asked of a handle that only reads
    ├── LockTimeout (TimeoutError)
    ├── KeyTypeError (TypeError)
    ├── KeyTooLong (ValueError)
    ├── ValueTypeError (TypeError)
    ├── ValueTooLarge (ValueError)
    ├── EntryCorrupt                        an entry's bytes are no key or value
    ├── NotAnInteger (TypeError)
    ├── IntegerOverflow (OverflowError)
    └── InvalidArgument (ValueError)
        ├── InvalidTTL
        ├── InvalidSize
        ├── InvalidMaxEntries
        ├── InvalidFavour
        ├── InvalidLockTimeout
        ├── InvalidGroup
        └── InvalidVersion

    SizeMismatchWarning (UserWarning)

A message says what happened, to what, and what can be done. Whatever is refused has changed
nothing. A key that is missing where one is demanded (``cache[key]``, ``pop``, ``incr``) is Python's
own KeyError. This module imports nothing of Tuckbox.
"""

from __future__ import annotations


class TuckboxError(Exception):
    """Base of all exceptions that Tuckbox raises."""


class CacheFileError(TuckboxError, OSError):
    """The file, or the system beneath it, refused.

    ``filename`` is the file. ``errno`` is the system's number, or None if it was not the system
    that refused.
    """

    def __str__(self) -> str:
        """Return the sentence alone: it names the file already."""
        return self.strerror or super().__str__()


class CacheOpenError(CacheFileError):
    """The file could not be opened or made."""


class DirectoryMissing(CacheOpenError, FileNotFoundError):
    """The directory that the file is to lie in does not exist."""


class FileMissing(CacheOpenError, FileNotFoundError):
    """There is no file, and it was to be opened read-only, which makes none."""


class AccessDenied(CacheOpenError, PermissionError):
    """This user may not read (and, unless read-only, write) the file, or may not make it."""


class UnsafeFile(CacheOpenError):
    """Somebody else could have put the file there, or can change or replace it.

    It was left as it is. The message says what is wrong, and which command mends it.
    """


class NetworkFileSystem(CacheOpenError):
    """The path lies on a file system that other machines can use, where no memory is shared."""


class NotAFile(CacheOpenError):
    """The path leads to a directory or to something else that is not a regular file."""


class NotACache(CacheOpenError):
    """The path leads to a file that Tuckbox did not make. It was left as it is."""


class VersionMismatch(CacheOpenError):
    """The file is a cache in a format that this version cannot use. It was left as it is."""


class CacheCorrupt(CacheOpenError):
    """The file is a cache whose header is damaged. It was left as it is."""


class TooManyProcesses(CacheOpenError):
    """Every process slot of the file is taken by a live process."""


class TooManyCaches(CacheOpenError):
    """This process has as many caches open as it may."""


class CacheFull(CacheFileError):
    """No room could be made: the file system is full."""


class CacheLost(CacheFileError):
    """The file behind the handle, or the process that a private cache belongs to, has gone."""


class CacheClosed(TuckboxError, ValueError):
    """The cache was closed, and then used."""


class CacheReadOnly(TuckboxError):
    """A change was asked of a cache that was opened with ``read_only``. Nothing was changed."""


class LockTimeout(TuckboxError, TimeoutError):
    """A live process held a lock for longer than ``lock_timeout``."""


class KeyTypeError(TuckboxError, TypeError):
    """The key is not a str, bytes, int or a tuple of them."""


class KeyTooLong(TuckboxError, ValueError):
    """The key is longer than 64 KiB when encoded."""


class ValueTypeError(TuckboxError, TypeError):
    """The value is, or contains, an object of a type that cannot be stored."""


class ValueTooLarge(TuckboxError, ValueError):
    """The value is longer than this cache takes, however empty it is."""


class EntryCorrupt(TuckboxError):
    """An entry was found whose bytes are not those of a key or value that this version knows."""


class NotAnInteger(TuckboxError, TypeError):
    """``incr`` or ``decr`` met a value, or was given a number, that is not an int of 64 bits."""


class IntegerOverflow(TuckboxError, OverflowError):
    """The result of ``incr`` or ``decr`` would not fit 64 bits."""


class InvalidArgument(TuckboxError, ValueError):
    """An argument does not make sense, whatever the cache holds."""


class InvalidTTL(InvalidArgument):
    """``ttl`` is negative, NaN, or neither None, a number nor a timedelta."""


class InvalidSize(InvalidArgument):
    """``size`` is not a size, or is too small for a cache."""


class InvalidMaxEntries(InvalidArgument):
    """``max_entries`` is not a positive int, or is too large."""


class InvalidFavour(InvalidArgument):
    """``favour`` is not the name of something to favour."""


class InvalidLockTimeout(InvalidArgument):
    """``lock_timeout`` is not a number of seconds."""


class InvalidGroup(InvalidArgument):
    """``group`` is no group of this machine, or the cache is one that no group can share."""


class InvalidVersion(InvalidArgument):
    """``version`` is not the version of an entry."""


class SizeMismatchWarning(UserWarning):
    """A file was opened with a size, limit or favour other than the one it was made with.

    The file keeps its own.
    """
