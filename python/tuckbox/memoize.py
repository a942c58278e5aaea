"""`memoize`: functions whose results are kept in a store.

Owns the decorated functions and their names. The keys of calls are in `tuckbox.arguments`, loading
is in `tuckbox.loading`. Must not assume a file.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
from collections.abc import Coroutine, Iterable
from typing import Any, Callable, Optional, TypeVar, Union, overload

from tuckbox.advice import explains_names
from tuckbox.arguments import Call
from tuckbox.contract import Store, Ttl
from tuckbox.errors import InvalidArgument
from tuckbox.keys import Key
from tuckbox.loading import load
from tuckbox.loads import MISSING, Options, Result

if sys.version_info >= (3, 10):
    from typing import Concatenate, Generic, ParamSpec

    P = ParamSpec("P")
    Q = ParamSpec("Q")
else:  # What annotations need at run time.

    class Generic:
        def __class_getitem__(cls, _types: object) -> type:
            return cls

    class Concatenate:
        def __class_getitem__(cls, _types: object) -> list:
            return []

    class _Parameters(list):
        args = kwargs = Any

    P = Q = _Parameters()

__all__ = ["AsyncMemoized", "Decorator", "Memoized", "Memoizing"]

R = TypeVar("R")
_B = TypeVar("_B", bound="_Base[Any, Any]")

Tags = Union[Iterable[str], Callable[..., Iterable[str]]]
"""Names, or a function that takes the arguments of a call and returns names."""


class Memoizing:
    """Adds `memoize` to a store."""

    __slots__ = ()

    @explains_names
    def memoize(
        self: Store,
        ttl: Union[Ttl, Callable[[Any], Ttl]] = None,
        *,
        stale: Ttl = None,
        tags: Tags = (),
        timeout: Optional[float] = None,
        early: Optional[float] = None,
        background: bool = False,
        name: Optional[str] = None,
        typed: bool = False,
        ignore: Iterable[str] = (),
    ) -> Decorator:
        """Return a decorator that keeps the results of a function in the cache.

        The result is made as by `get_or_set`. Calls that bind the same arguments share a key, in
        every process: ``f(1)``, ``f(a=1)``, and ``f()`` if 1 is the default. The guide *loading*
        has the rule for each type of argument.

        The decorated function has the operations ``key``, ``peek``, ``refresh`` and
        ``invalidate``, which take the arguments of a call.

        Args:
            ttl: As for `get_or_set`. The function may return a `Result`.
            stale: As for `get_or_set`.
            tags: Names for `evict`, or a function that takes the arguments of a call and returns
                names.
            timeout: As for `get_or_set`.
            early: As for `get_or_set`.
            background: As for `get_or_set`.
            name: The first part of each key. The default is the name of the function after that of
                its module, such as ``"shop.views.price"``. Functions with one name share results.
            typed: Whether equal numbers of different types, such as 1, 1.0 and True, have
                different keys.
            ignore: Names of parameters that take no part in the key.

        Returns:
            A decorator for functions, coroutine functions and methods. Place it outside of
            ``@staticmethod`` and ``@classmethod``. ``self`` and ``cls`` take part in the key.

        Raises:
            InvalidArgument: An argument is invalid, or the function needs a ``name``.

        Example:
            >>> @cache.memoize(ttl=60, tags=["reports"])
            ... def report(day, full=False):
            ...     return f"{day} {full}"
            >>> report(7), report(day=7, full=False)
            ('7 False', '7 False')
            >>> report.peek(7), report.peek(8)
            ('7 False', None)
            >>> report.refresh(7), report.invalidate(7), report.invalidate(7)
            ('7 False', True, False)
        """
        given: object = name
        if given is not None and (not isinstance(given, str) or not given):
            raise InvalidArgument(f"name must be a str that is not empty, not {given!r}")
        names_of = tags if callable(tags) else None
        options = Options(ttl, stale, () if callable(tags) else tags, timeout, early, background)
        return Decorator(self, options.checked(), names_of, name, typed=typed, ignore=ignore)


class Decorator:
    """What `memoize` returns: call it with the function."""

    def __init__(
        self,
        store: Store,
        options: Options,
        tags: Optional[Callable[..., Iterable[str]]],
        name: Optional[str],
        *,
        typed: bool,
        ignore: Iterable[str],
    ) -> None:
        self._store = store
        self._options = options
        self._tags = tags
        self._name = name
        self._typed = typed
        self._ignore = ignore

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, Result[R]]]
    ) -> AsyncMemoized[P, R]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, R]]
    ) -> AsyncMemoized[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Result[R]]) -> Memoized[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> Memoized[P, R]: ...
    def __call__(self, function: Callable[..., Any]) -> Any:
        """Return the function with its results kept.

        Raises:
            InvalidArgument: It is no function, or it needs a ``name``.
        """
        plain = _inside(function)
        if not callable(plain) or isinstance(plain, type):
            raise InvalidArgument(
                f"memoize() decorates a function, not {plain!r}: write @cache.memoize() above it"
            )
        if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
            raise InvalidArgument(
                f"{plain!r} is a generator function: return a list, which can be stored"
            )
        name = self._name or _name_of(plain)
        call = Call(plain, name, typed=self._typed, ignore=self._ignore)
        kind = AsyncMemoized if inspect.iscoroutinefunction(plain) else Memoized
        return kind(self._store, function, call, self._options, self._tags)


class _Base(Generic[P, R]):
    """What memoized functions and coroutine functions share."""

    def __init__(
        self,
        store: Any,
        function: Callable[..., Any],
        call: Call,
        options: Options,
        tags: Optional[Callable[..., Iterable[str]]],
    ) -> None:
        self._store = store
        self._options = options
        self._tags = tags
        self._key: Callable[..., Key] = call.key
        self._first: tuple[Any, ...] = ()
        self._descriptor: object = function
        self._function = _inside(function)
        for name in functools.WRAPPER_ASSIGNMENTS:
            if hasattr(self._function, name):
                setattr(self, name, getattr(self._function, name))

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The function, bound to its object if this is."""
        function = self._function
        return function.__get__(*self._first) if self._first else function  # type: ignore[no-any-return]

    def key(self, /, *args: P.args, **kwargs: P.kwargs) -> Key:
        """Return the key of a call.

        Raises:
            TypeError: The function does not take these arguments.
            KeyTypeError: An argument cannot be part of a key.

        Example:
            >>> double = cache.memoize(name="double")(lambda number: number * 2)
            >>> double.key(number=4)
            ('double', 4)
        """
        return self._key(*args, **kwargs)

    def _made_by(self, args: Any, kwargs: Any) -> tuple[Callable[[], Any], Options]:
        """Return the maker of a call, and how to load it."""
        make = functools.partial(self._function, *self._first, *args, **kwargs)
        if self._tags is None:
            return make, self._options
        tags = self._tags(*self._first, *args, **kwargs)
        return make, self._options._replace(tags=tags)

    def _bound_to(self: _B, instance: Any, owner: Optional[type]) -> _B:  # noqa: PYI019 - As in 3.9.
        if isinstance(self._descriptor, staticmethod):
            return self
        if isinstance(self._descriptor, classmethod):
            instance = type(instance) if owner is None else owner
        if instance is None:
            return self
        bound = object.__new__(type(self))
        bound.__dict__.update(self.__dict__)
        bound._first = (instance,)
        bound._key = functools.partial(self._key, instance)
        return bound

    def __reduce__(self) -> Union[str, tuple[Any, ...]]:
        """Pickle the name, as functions do; a copy is the same object."""
        if self._first:
            return getattr, (self._first[0], self._function.__name__)
        return str(self._function.__qualname__)

    def __repr__(self) -> str:
        """Return the function."""
        return f"<memoized {self.__wrapped__!r}>"


class Memoized(_Base[P, R]):
    """A function whose results are kept. Call it as the function.

    Example:
        >>> double = cache.memoize(ttl=60, name="double")(lambda number: number * 2)
        >>> double(4), double.key(4), double.peek(4)
        (8, ('double', 4), 8)
    """

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the result of the function, from the cache if it has it."""
        key = self._key(*args, **kwargs)
        if self._options.early is None:
            value = self._store.get(key, MISSING)
            if value is not MISSING:
                return value  # type: ignore[no-any-return]
        return load(self._store, key, *self._made_by(args, kwargs))  # type: ignore[no-any-return]

    def peek(self, /, *args: P.args, **kwargs: P.kwargs) -> Optional[R]:
        """Return the result of a call if the cache has it, be it stale; else None.

        Example:
            >>> double = cache.memoize(name="double")(lambda number: number * 2)
            >>> double.peek(4), double(4), double.peek(4)
            (None, 8, 8)
        """
        entry = self._store.get_entry(self.key(*args, **kwargs), stale=True)
        return None if entry is None else entry.value

    def refresh(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, keep its result and return it.

        Example:
            >>> double = cache.memoize(name="double")(lambda number: number * 2)
            >>> double.refresh(4)
            8
        """
        key = self.key(*args, **kwargs)
        make, options = self._made_by(args, kwargs)
        return load(self._store, key, make, options._replace(force=True))  # type: ignore[no-any-return]

    def invalidate(self, /, *args: P.args, **kwargs: P.kwargs) -> bool:
        """Delete the result of a call. A result that is being made is not stored.

        Returns:
            Whether the cache had it.

        Example:
            >>> double = cache.memoize(name="double")(lambda number: number * 2)
            >>> double(4), double.invalidate(4), double.peek(4)
            (8, True, None)
        """
        return bool(self._store.delete(self.key(*args, **kwargs)))

    @overload
    def __get__(self: _B, instance: None, owner: type) -> _B: ...
    @overload
    def __get__(
        self: Memoized[Concatenate[Any, Q], R], instance: object, owner: Optional[type] = None
    ) -> Memoized[Q, R]: ...
    def __get__(self, instance: Any, owner: Optional[type] = None) -> Any:
        """Bind a method to its object, with all its operations."""
        return self._bound_to(instance, owner)


class AsyncMemoized(_Base[P, R]):
    """A coroutine function whose results are kept. Its operations are awaited, except `key`.

    It needs a store with `aget_or_set`.
    """

    def __init__(
        self,
        store: Any,
        function: Callable[..., Any],
        call: Call,
        options: Options,
        tags: Optional[Callable[..., Iterable[str]]],
    ) -> None:
        super().__init__(store, function, call, options, tags)
        # For those that ask `iscoroutinefunction`, such as web frameworks.
        if sys.version_info >= (3, 12):
            inspect.markcoroutinefunction(self)
        else:
            self._is_coroutine = getattr(asyncio.coroutines, "_is_coroutine", None)

    async def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the result of the coroutine function, from the cache if it has it."""
        key = self.key(*args, **kwargs)
        make, options = self._made_by(args, kwargs)
        return await self._store.aget_or_set(key, make, **options._asdict())  # type: ignore[no-any-return]

    async def peek(self, /, *args: P.args, **kwargs: P.kwargs) -> Optional[R]:
        """Return the result of a call if the cache has it, be it stale; else None."""
        entry = await self._store.aget_entry(self.key(*args, **kwargs), stale=True)
        return None if entry is None else entry.value

    async def refresh(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the coroutine function, keep its result and return it."""
        key = self.key(*args, **kwargs)
        make, options = self._made_by(args, kwargs)
        arguments = options._replace(force=True)._asdict()
        return await self._store.aget_or_set(key, make, **arguments)  # type: ignore[no-any-return]

    async def invalidate(self, /, *args: P.args, **kwargs: P.kwargs) -> bool:
        """Delete the result of a call. Return whether the cache had it."""
        return bool(await self._store.adelete(self.key(*args, **kwargs)))

    @overload
    def __get__(self: _B, instance: None, owner: type) -> _B: ...
    @overload
    def __get__(
        self: AsyncMemoized[Concatenate[Any, Q], R], instance: object, owner: Optional[type] = None
    ) -> AsyncMemoized[Q, R]: ...
    def __get__(self, instance: Any, owner: Optional[type] = None) -> Any:
        """Bind a method to its object, with all its operations."""
        return self._bound_to(instance, owner)


def _inside(function: Any) -> Any:
    """The function of a static or class method."""
    return function.__func__ if isinstance(function, (classmethod, staticmethod)) else function


def _name_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "__qualname__", None)
    if name is None or "<lambda>" in name:
        raise InvalidArgument(
            f"{function!r} has no name of its own: pass name= to memoize(), the first part of its "
            "keys"
        )
    # A process started by `spawn` has the main module under another name.
    module = "__main__" if function.__module__ == "__mp_main__" else function.__module__
    return f"{module}.{name}"
