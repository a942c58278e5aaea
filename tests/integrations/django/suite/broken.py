"""Backends that are wrong, each in one way. Django's tests must tell."""

from __future__ import annotations

import pickle
from contextlib import suppress
from typing import Any

from tuckbox.integrations.django import TuckboxCache


class NoneIsAMiss(TuckboxCache):
    def get(self, key: Any, default: Any = None, version: Any = None) -> Any:
        found = super().get(key, default, version)
        return default if found is None else found


class AddOverwrites(TuckboxCache):
    def add(self, key: Any, value: Any, *arguments: Any, **named: Any) -> bool:
        self.set(key, value, *arguments, **named)
        return True


class OneVersion(TuckboxCache):
    def make_key(self, key: Any, version: Any = None) -> Any:
        return self.key_func(key, self.key_prefix, 1)


class ZeroIsForever(TuckboxCache):
    def get_backend_timeout(self, *arguments: Any) -> Any:
        return super().get_backend_timeout(*arguments) or None


class KeepsAll(TuckboxCache):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._max_entries = None


class SwallowsErrors(TuckboxCache):
    def set(self, *arguments: Any, **named: Any) -> None:
        with suppress(pickle.PickleError):
            super().set(*arguments, **named)


class NoWarnings(TuckboxCache):
    def validate_key(self, key: Any) -> None:
        pass
