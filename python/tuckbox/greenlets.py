"""gevent: plain operations that let other greenlets run, in programs that gevent has patched.

Owns what a cache does differently there: an operation that meets a lock sleeps in its greenlet, and
long work goes to the thread pool of gevent. Must not be needed by other programs: without gevent,
nothing here runs, and `get` and `set` have no Python frame.
"""

from __future__ import annotations

import functools
import sys
import time
from typing import Any, Callable, Final

from tuckbox.brief import Locked, WouldBlock, briefly, is_brief
from tuckbox.calls import SPIN_S, pauses, watching

__all__ = ["cooperate"]

_NAMES: Final = (
    *("get", "get_entry", "get_many", "__getitem__", "set", "set_many", "__setitem__", "add"),
    *("replace", "cas", "setdefault", "update", "touch", "incr", "decr", "delete", "delete_many"),
    *("__delitem__", "pop", "popitem", "clear", "expire", "check", "resize", "evict"),
    *("get_and_touch", "ttl"),
    *("_begin", "_finish", "_abandon", "_era", "_advance_era"),
)
_WAIT: Final = "_wait_made"
_FIRST_PAUSE_S: Final = 0.001
_PAUSE_MAX_S: Final = 0.02
_MANY: Final = {"set_many", "delete_many", "update"}
"""An attempt that met a lock may have done a part of these: they continue in a thread."""


def cooperate(kind: type) -> None:
    """If gevent has patched this program, make the operations of a class let other greenlets run.

    Args:
        kind: A class of caches. It is changed once; subclasses inherit that.

    Example:
        >>> cooperate(Cache)  # Does nothing: gevent has not patched this program.
    """
    monkey = sys.modules.get("gevent.monkey")
    if monkey is None or "_cooperates" in vars(kind) or not monkey.is_module_patched("time"):
        return
    kind._cooperates = True  # type: ignore[attr-defined]  # noqa: SLF001 - Known here only.
    for name in _NAMES:
        if hasattr(kind, name):
            setattr(kind, name, _cooperative(name, getattr(kind, name)))
    if hasattr(kind, _WAIT):
        setattr(kind, _WAIT, _patient(getattr(kind, _WAIT)))


def _hub() -> Any:
    """Return the hub of this thread; None if no greenlets run in it, or if the hub itself calls."""
    gevent = sys.modules["gevent"]
    hub = gevent._hub_local.get_hub_if_exists()  # noqa: SLF001 - `get_hub` would make one.
    return None if hub is None or gevent.getcurrent() is hub else hub


def _cooperative(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_brief():
            return plain(self, *args, **kwargs)
        if name == "delete_many":
            # A list, of which the rest can be deleted later.
            given = args[0] if args else kwargs["keys"]
            args, kwargs = (given if isinstance(given, (str, bytes)) else list(given),), {}
        try:
            return briefly(SPIN_S, plain, self, *args, **kwargs)
        except WouldBlock as refusal:
            done, count = refusal.done
            is_locked = isinstance(refusal, Locked) and name not in _MANY
        if done:
            args = (args[0][done:],)
        operation = functools.partial(plain, self, *args, **kwargs)
        hub = _hub()
        if hub is None:
            result = operation()
        elif is_locked:
            result = _retried(self, operation, hub)
        else:
            result = hub.threadpool.apply(operation)
        return count + result if count else result

    return wrapper


def _retried(cache: Any, operation: Callable[[], Any], hub: Any) -> Any:
    for pause_s, waited_s in pauses(cache):
        time.sleep(pause_s)  # Of gevent.
        try:
            return briefly(0.0, operation)
        except Locked:
            pass
        except WouldBlock:
            return hub.threadpool.apply(operation)
        with watching(cache, waited_s) as is_mine:
            if is_mine:
                return hub.threadpool.apply(operation)
    raise AssertionError("the pauses end with LockTimeout")


def _patient(wait: Callable[..., bool]) -> Callable[..., bool]:
    @functools.wraps(wait)
    def wrapper(self: Any, key: Any, timeout_s: float) -> bool:
        if is_brief() or _hub() is None:
            return wait(self, key, timeout_s)
        ends_s = time.monotonic() + timeout_s
        pause_s = _FIRST_PAUSE_S
        while not wait(self, key, 0.0):
            left_s = ends_s - time.monotonic()
            if left_s <= 0:
                return False
            time.sleep(min(pause_s, left_s))  # Of gevent.
            pause_s = min(pause_s * 2, _PAUSE_MAX_S)
        return True

    return wrapper
