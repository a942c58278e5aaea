"""`Breaker`: a driver in front of another one that stops asking a place that does not answer.

Owns when a place is asked again. Must not know which place it is, or what is above the driver.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Callable, Optional, TypeVar

from tuckbox.drivers.contract import Capabilities, Changed, Driver, Found, Version, Watch
from tuckbox.errors import Refused, Unreachable

__all__ = ["Breaker"]

_T = TypeVar("_T")

_PAUSE_S = 0.1
_PAUSE_MAX_S = 1.0


class Breaker:
    """A driver that fails at once while its place does not answer.

    After ``failures`` operations in a row that raised `Unreachable`, all operations raise it
    without asking the place. After a pause, one operation asks; if it is answered, all ask again.
    The pause is random, and twice as long each time, up to about a second.

    Args:
        driver: The driver of the place.
        failures: After how many failures in a row to stop.
        now: What tells the time in seconds.

    Example:
        >>> from tuckbox.drivers.memory import Memory
        >>> driver = Breaker(Memory())
        >>> driver.set(b"k", b"value", 60)
        >>> driver.get(b"k").value
        b'value'
    """

    def __init__(
        self, driver: Driver, *, failures: int = 2, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.driver = driver
        """The driver behind."""
        self._limit = failures
        self._now = now
        self._failures = 0
        self._pause_s = _PAUSE_S
        self._asks_at_s = 0.0
        self._asking = threading.Lock()
        self._pid = os.getpid()

    @property
    def capabilities(self) -> Capabilities:
        """See `Driver.capabilities`."""
        return self.driver.capabilities

    @property
    def title(self) -> str:
        """See `Driver.title`."""
        return self.driver.title

    @property
    def is_open(self) -> bool:
        """Whether operations fail at once: the place has not answered for some time."""
        return self._failures >= self._limit

    def ask(self, operation: Callable[[], _T]) -> _T:
        """Run an operation on the place, and note whether it answers.

        Raises:
            Unreachable: The place does not answer, or is not asked.
        """
        if not self.is_open:
            return self._asked(operation)
        if self._pid != os.getpid():
            # After a fork, the thread that holds the lock is not in this process.
            self._asking, self._pid = threading.Lock(), os.getpid()
        if self._now() < self._asks_at_s or not self._asking.acquire(blocking=False):
            raise Unreachable(
                f"{self.title} has not answered {self._failures} times in a row, and will be asked "
                "again soon; check that it runs, and the address"
            )
        try:
            return self._asked(operation)
        finally:
            self._asking.release()

    def _asked(self, operation: Callable[[], _T]) -> _T:
        try:
            result = operation()
        except Unreachable:
            self._failed()
            raise
        except Refused:
            self._has_answered()
            raise
        self._has_answered()
        return result

    def _has_answered(self) -> None:
        if self._failures:
            self._failures, self._pause_s = 0, _PAUSE_S

    def _failed(self) -> None:
        self._failures += 1
        self._asks_at_s = self._now() + self._pause_s * random.uniform(0.5, 1.5)  # noqa: S311
        if self.is_open:
            self._pause_s = min(2 * self._pause_s, _PAUSE_MAX_S)

    def get(self, key: bytes) -> Optional[Found]:
        """See `Driver.get`."""
        if self._failures:
            return self.ask(lambda: self.driver.get(key))
        # As `ask`, without its calls.
        try:
            return self.driver.get(key)
        except Unreachable:
            self._failed()
            raise

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Found]:
        """See `Driver.get_many`."""
        return self.ask(lambda: self.driver.get_many(keys))

    def set(self, key: bytes, value: bytes, ttl_s: Optional[float]) -> None:
        """See `Driver.set`."""
        self.ask(lambda: self.driver.set(key, value, ttl_s))

    def set_many(self, items: Iterable[tuple[bytes, bytes, Optional[float]]]) -> None:
        """See `Driver.set_many`."""
        self.ask(lambda: self.driver.set_many(items))

    def add(self, key: bytes, value: bytes, ttl_s: Optional[float]) -> bool:
        """See `Driver.add`."""
        return self.ask(lambda: self.driver.add(key, value, ttl_s))

    def swap(self, key: bytes, value: bytes, ttl_s: Optional[float], version: Version) -> bool:
        """See `Driver.swap`."""
        return self.ask(lambda: self.driver.swap(key, value, ttl_s, version))

    def delete(self, key: bytes, version: Optional[Version] = None) -> bool:
        """See `Driver.delete`."""
        return self.ask(lambda: self.driver.delete(key, version))

    def delete_many(self, keys: Iterable[bytes]) -> int:
        """See `Driver.delete_many`."""
        return self.ask(lambda: self.driver.delete_many(keys))

    def touch(self, key: bytes, ttl_s: Optional[float]) -> bool:
        """See `Driver.touch`."""
        return self.ask(lambda: self.driver.touch(key, ttl_s))

    def scan(self, prefix: bytes) -> Iterator[bytes]:
        """See `Driver.scan`."""
        return self.ask(lambda: self.driver.scan(prefix))

    def clear(self, prefix: bytes) -> None:
        """See `Driver.clear`."""
        self.ask(lambda: self.driver.clear(prefix))

    def ping(self) -> None:
        """See `Driver.ping`."""
        self.ask(self.driver.ping)

    def watch(self, prefix: bytes, changed: Changed) -> Watch:
        """See `Watchable.watch`. Always asks: who watches pauses by itself."""
        driver: Any = self.driver
        return driver.watch(prefix, changed)  # type: ignore[no-any-return]

    def close(self) -> None:
        """See `Driver.close`."""
        self.driver.close()
