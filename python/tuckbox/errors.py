"""Every exception that Tuckbox raises, and its warnings.

::

    TuckboxError
    ├── CacheFileError (OSError)            a problem with the file or the system
    │   ├── CacheOpenError                  the file cannot be opened or created
    │   │   ├── DirectoryMissing (FileNotFoundError)
    │   │   ├── FileMissing (FileNotFoundError)
    │   │   ├── FileExists (FileExistsError)
    │   │   ├── AccessDenied (PermissionError)
    │   │   ├── UnsafeFile                  other users can change or replace it
    │   │   ├── NetworkFileSystem           other machines do not share its memory
    │   │   ├── NotAFile                    a directory, a socket ...
    │   │   ├── NotACache                   a file that Tuckbox did not create
    │   │   ├── VersionMismatch             a cache in another format
    │   │   ├── CacheCorrupt                a cache with a damaged header
    │   │   ├── TooManyProcesses
    │   │   ├── TooManyCaches
    │   │   └── NoSharedFiles               this system has no shared files
    │   ├── CacheFull                       no room, and nothing may be evicted
    │   └── CacheLost                       the open file was truncated, or cannot be opened again
    ├── DriverError                         a problem with the place that holds the entries
    │   ├── Unreachable (ConnectionError)   it does not answer, or not in its protocol
    │   ├── Refused                         it refuses: credentials, rights, read-only, full
    │   ├── Unsupported                     it cannot do this
    │   └── ClientMissing (ImportError)     the client library is not installed
    ├── DumpInvalid (ValueError)            a file is not a whole dump
    ├── CacheClosed (ValueError)
    ├── CacheReadOnly                       a write through a read-only handle
    ├── LockTimeout (TimeoutError)          another process was inside the store for too long
    ├── AcquireTimeout (TimeoutError)       others held a `cache.lock` or a semaphore for too long
    ├── LockNotOwned (RuntimeError)         this thread or task has not acquired it
    │   └── LockLost                        its lease ended before it was released
    ├── QueueFull                           a queue has `maxlen` items
    ├── TransactionConflict                 others changed what a transaction had read
    ├── TransactionUnfinished               it is committed, and others will finish it
    ├── LoadTimeout (TimeoutError)          a value was not made within `timeout`
    ├── LoadRecursion (RecursionError)      a maker asked for the key that it makes
    ├── InvalidResult (ValueError)          a maker returned what cannot be used
    ├── KeyTypeError (TypeError)
    ├── KeyTooLong (ValueError)
    ├── ValueTypeError (TypeError)
    ├── ValueTooLarge (ValueError)
    ├── EntryCorrupt                        a stored key or value cannot be decoded
    │   └── EntryRefused                    this handle may not decode it
    ├── NotAnInteger (TypeError)
    ├── IntegerOverflow (OverflowError)
    └── InvalidArgument (ValueError)
        ├── InvalidTTL
        ├── InvalidPath
        ├── InvalidSize
        ├── InvalidMaxEntries
        ├── InvalidAfterPowerCut
        ├── InvalidFavour
        ├── InvalidLockTimeout
        ├── InvalidGroup
        ├── InvalidTag
        └── InvalidVersion

    SizeMismatchWarning (UserWarning)
    LogoutWarning (UserWarning)
    LittleSpaceWarning (UserWarning)
    SeparateCacheWarning (UserWarning)
    OneProcessWarning (UserWarning)

Each message says what happened, to what, and what to do. An operation on one key that raises has
changed nothing. ``cache[key]``, and ``pop`` without a default, raise the built-in KeyError if the
key has no value.

Example::

    try:
        cache.set("page", html, ttl=60)
    except tuckbox.TuckboxError as error:
        log.warning("not cached: %s", error)
"""

from __future__ import annotations


class TuckboxError(Exception):
    """Base class of all Tuckbox exceptions."""


class CacheFileError(TuckboxError, OSError):
    """A problem with the cache file or the operating system.

    Attributes:
        filename: The path of the file.
        errno: The number of the operating system's error, or None if there is none.
    """

    def __str__(self) -> str:
        """Return the message alone, because it already names the file."""
        return self.strerror or super().__str__()


class CacheOpenError(CacheFileError):
    """The file cannot be opened or created. The subclasses say why."""


class DirectoryMissing(CacheOpenError, FileNotFoundError):
    """The directory of the file does not exist. Create it: Tuckbox never does."""


class FileMissing(CacheOpenError, FileNotFoundError):
    """The file does not exist, and ``read_only`` does not create it.

    Correct the path, or start a process that writes before one that only reads.
    """


class FileExists(CacheOpenError, FileExistsError):
    """There is a file at the path to which a cache is to be copied. It was not changed.

    Remove it first, or give another path.
    """


class AccessDenied(CacheOpenError, PermissionError):
    """This user may not create, read or (unless ``read_only``) write the file.

    Run all processes as one user, or share the file with ``group``.
    """


class UnsafeFile(CacheOpenError):
    """Other users could have created the file, or can change or replace it.

    The file was not changed. The message gives the reason and the command that fixes it.
    """


class NetworkFileSystem(CacheOpenError):
    """The path is on a file system that other machines can use without sharing memory or locks.

    Use a local file system, with a cache for each machine.
    """


class NotAFile(CacheOpenError):
    """The path is a directory or something else that is not a regular file. Use another path."""


class NotACache(CacheOpenError):
    """The file was not created by Tuckbox. It was not changed. Use another path."""


class VersionMismatch(CacheOpenError):
    """The file is a cache in a format that this version cannot read. It was not changed.

    Stop its processes and remove it, or use the version that created it.
    """


class CacheCorrupt(CacheOpenError):
    """The file is a cache with a damaged header. It was not changed.

    Stop its processes and remove it.
    """


class TooManyProcesses(CacheOpenError):
    """The maximum number of processes use the cache: ``stats().processes_max``.

    End one of them, or open with ``read_only``. A cache with a larger ``size`` allows more
    processes, up to 1,024.
    """


class TooManyCaches(CacheOpenError):
    """This process has the maximum number of cache files open: 1,024. Close some."""


class NoSharedFiles(CacheOpenError):
    """The cache has a path, and this installation of Tuckbox can only keep it in this process.

    Give a name or no path, or use Tuckbox on Linux.
    """


class CacheFull(CacheFileError):
    """There is no room. The message says whether the cache is full, or the file system.

    A cache is full if it does not evict (``evict=False``), or if all of its entries are pinned:
    delete entries, or give it a larger size with ``resize``. If the file system is full, or other
    processes hold the space, free some, or try again later.
    """


class CacheLost(CacheFileError):
    """The open file was truncated, or replaced by one that cannot be opened. The message says why.

    Remove the file: the next write creates it again. Also raised by an iteration during which the
    file was replaced, and when a private cache is unpickled after its process has ended.
    """


class DriverError(TuckboxError):
    """A problem with the place that holds the entries: see `tuckbox.drivers`."""


class Unreachable(DriverError, ConnectionError):
    """The place does not answer, or not in its protocol. A write may have been done or not.

    Check that the server runs, and the address.
    """


class Refused(DriverError):
    """The place refuses: wrong credentials, missing rights, read-only, or full.

    The message says which, and what to do.
    """


class Unsupported(DriverError):
    """The place cannot do this. The message names an operation that it can do."""


class ClientMissing(DriverError, ImportError):
    """The client library of the place is not installed. The message has the command to run."""


class DumpInvalid(TuckboxError, ValueError):
    """The file given to ``load`` is no whole dump that this version can read. Nothing was changed.

    It is damaged, cut off, no dump at all, or a newer version wrote it. The message says which.
    """


class CacheClosed(TuckboxError, ValueError):
    """The cache was used after it was closed. Open it again."""


class CacheReadOnly(TuckboxError):
    """A write was attempted through a ``read_only`` handle. Nothing was changed."""


class LockTimeout(TuckboxError, TimeoutError):
    """A live process held a lock for longer than ``lock_timeout``. Nothing was changed.

    Such a lock is inside the cache, held for moments while an entry is stored: it is not one of
    ``cache.lock``. Try again. If it happens often, look for a process that is stopped, as by a
    debugger.
    """


class AcquireTimeout(TuckboxError, TimeoutError):
    """Others held a lock of ``cache.lock``, or all places of a semaphore, for ``timeout``.

    Raised by ``with``; ``acquire`` returns False instead. Try again later.
    """


class LockNotOwned(TuckboxError, RuntimeError):
    """This thread or task has not acquired the lock or semaphore that it wants to release."""


class LockLost(LockNotOwned):
    """A lock or a place of a semaphore was lost before it was released.

    Its lease ended, or the cache was cleared. Others may have acquired it meanwhile: what was done
    under it may have been done at the same time as theirs.
    """


class QueueFull(TuckboxError):
    """The queue has ``maxlen`` items. Nothing was pushed. Pull some, or try again later."""


class TransactionConflict(TuckboxError):
    """A key that a transaction had read was changed before its end. Nothing was changed by it.

    Run the transaction again. ``cache.transact(function)`` does.
    """


class TransactionUnfinished(TuckboxError):
    """The transaction is committed, but a key could not be stored yet. The message says why.

    Do not repeat it: nothing is lost. Each transaction that any process begins to commit finishes
    it first, or raises the same error as this one's ``__cause__``, such as CacheFull.
    """


class LoadTimeout(TuckboxError, TimeoutError):
    """A value was not made within ``timeout``, and there is no stale one.

    The maker continues, and its result will be stored. Try again later, give a longer ``timeout``,
    or keep old values with ``stale``.
    """


class LoadRecursion(TuckboxError, RecursionError):
    """A maker asked for the key that it makes, and would wait for itself.

    Use another key, or call the function that makes the value.
    """


class InvalidResult(TuckboxError, ValueError):
    """The maker of several keys returned no dict, or a key that it was not given."""


class KeyTypeError(TuckboxError, TypeError):
    """The key is not a str, bytes, int or a tuple of these. Convert it.

    A lookup raises this only for a key that is not hashable.
    """


class KeyTooLong(TuckboxError, ValueError):
    """The encoded key is longer than 64 KiB. Use a hash of it as the key."""


class ValueTypeError(TuckboxError, TypeError):
    """The value is, or contains, an object of a type that cannot be stored.

    Convert it to one of the types that ``Cache`` lists.
    """


class ValueTooLarge(TuckboxError, ValueError):
    """The value is larger than this cache can hold, even when empty.

    Store it in parts, or give the cache a larger ``size``: see ``resize``.
    """


class EntryCorrupt(TuckboxError):
    """The bytes of a key or value cannot be decoded by this version.

    Another program or a newer version stored them, or they are damaged. Delete the entry.
    """


class EntryRefused(EntryCorrupt):
    """The value is no plain value, and this handle may not or cannot decode it.

    A type is not registered, the handle does not unpickle, no known secret signed the entry, its
    codec is unknown, or it would decompress to more than the cache can hold. The message says
    which.
    """


class NotAnInteger(TuckboxError, TypeError):
    """The stored value, or an argument of ``incr`` or ``decr``, is not an int.

    Use a key that only counts.
    """


class IntegerOverflow(TuckboxError, OverflowError):
    """An argument or the result of ``incr`` or ``decr`` does not fit 64 bits.

    The value was not changed. Set a smaller one.
    """


class InvalidArgument(TuckboxError, ValueError):
    """An argument is invalid, whatever the cache contains. The message says what it may be."""


class InvalidTTL(InvalidArgument):
    """``ttl`` is neither None, a number, a duration such as ``"5m"``, nor a timedelta."""


class InvalidPath(InvalidArgument):
    """``path`` is empty, an address, ends with a slash, or is a name with other characters.

    The message says what to give instead.
    """


class InvalidSize(InvalidArgument):
    """``size`` is not a size, is too small or too large, or exceeds the file system."""


class InvalidMaxEntries(InvalidArgument):
    """``max_entries`` is not a positive int, or is too large."""


class InvalidAfterPowerCut(InvalidArgument):
    """``after_power_cut`` is not ``"keep"`` or ``"discard"``."""


class InvalidFavour(InvalidArgument):
    """``favour`` is not ``"balanced"``, ``"hits"`` or ``"bytes"``."""


class InvalidLockTimeout(InvalidArgument):
    """``lock_timeout`` is not a number of seconds."""


class InvalidGroup(InvalidArgument):
    """``group`` is not a group of this machine, or the cache is private or has a name."""


class InvalidTag(InvalidArgument):
    """``tags`` is not an iterable of str, or a tag is empty or too long."""


class InvalidVersion(InvalidArgument):
    """``version`` is not the version of an entry."""


class SizeMismatchWarning(UserWarning):
    """The file keeps another setting than was asked for.

    It is about ``size``, ``max_entries``, ``favour``, ``after_power_cut``, ``evict`` or
    ``ordered``. The message says why. Give all programs the same settings.
    """


class LogoutWarning(UserWarning):
    """systemd removes the file in memory while this process uses it, when its user logs out.

    Given once in a process. Use a path outside of ``/dev/shm``, run
    ``loginctl enable-linger USER``, or run the service as a system user.
    """


class LittleSpaceWarning(UserWarning):
    """The cache has less than the default size: half of its file system, or of the memory for it.

    Pass ``size``, or provide more space, such as ``docker run --shm-size=1g``.
    """


class SeparateCacheWarning(UserWarning):
    """Another user has a cache of its own at the same path; the two share no entries.

    Others can replace files in the directory, so each user's file is in a private folder. Run all
    processes as one user, or pass ``group``.
    """


class OneProcessWarning(UserWarning):
    """This installation of Tuckbox shares no file, so the cache is in this process alone.

    Given once in a process. Use Tuckbox on Linux where processes should share a cache.
    """
