"""Signatures of pickles.

Unpickling can run code. A signed pickle is unpickled only if its HMAC-SHA256 proves that a holder
of a secret stored it under this entry of this cache. The secret is not in the file. An attacker who
can write to the file but has no secret cannot run code. They can remove entries, replace them with
plain values, and restore an older object of the same entry.

The HMAC covers the cache's id (16 bytes), the length of the entry's encoded key (8 bytes,
little-endian), that key, and the pickle. Its key is derived from the secret. This module knows no
cache, no framework and no settings, and unpickles nothing.
"""

from __future__ import annotations

import functools
import hmac
from collections.abc import Iterable
from multiprocessing import context
from typing import Any, Callable, Union

from tuckbox.errors import EntryRefused, InvalidArgument

__all__ = ["Secret", "SecretArgument", "Signer"]

_MAC_BYTES = 32
_PURPOSE = b"tuckbox pickle"

SecretArgument = Union[str, bytes, Iterable[Union[str, bytes]], Callable[[], Any]]
"""A secret, several with the newest first, or a function that returns them."""


class Signer:
    """Signs content for one entry of one cache, and verifies it.

    Example:
        >>> signer = Signer([b"a secret"])
        >>> signed = signer.sign(b"id of the cache", b"key", b"content")
        >>> bytes(signer.verify(b"id of the cache", b"key", signed))
        b'content'
    """

    def __init__(self, secrets: Iterable[bytes]) -> None:
        """Derive the keys.

        Args:
            secrets: The first one signs; all of them verify.
        """
        derived = [hmac.digest(secret, _PURPOSE, "sha256") for secret in secrets]
        # Copying a prepared HMAC is cheaper than creating one.
        self._hmacs = tuple(hmac.new(key, digestmod="sha256") for key in derived)

    def sign(self, cache_id: bytes, key: bytes, content: bytes) -> bytes:
        """Return the signature followed by the content.

        Args:
            cache_id: The id of the cache that will store it.
            key: The encoded key of its entry.
            content: The bytes to sign.
        """
        return _mac(self._hmacs[0], cache_id, key, content) + content

    def verify(self, cache_id: bytes, key: bytes, signed: bytes) -> memoryview:
        """Return the content.

        Args:
            cache_id: The id of the cache that the bytes come from.
            key: The encoded key of their entry.
            signed: What `sign` returned.

        Raises:
            EntryRefused: No secret signed it for this entry.
        """
        mac, content = signed[:_MAC_BYTES], memoryview(signed)[_MAC_BYTES:]
        expected = (_mac(prepared, cache_id, key, content) for prepared in self._hmacs)
        if not any(hmac.compare_digest(own, mac) for own in expected):
            raise EntryRefused(
                "its pickle is not signed for this entry with a secret of this handle; pass the "
                "secret that signed it, or delete it"
            )
        return content


class Secret:
    """The secrets of a handle. Never shown; pickled only for a process that is being started."""

    def __init__(self, given: Union[SecretArgument, Secret]) -> None:
        """Check the secrets.

        Args:
            given: A str or bytes; several of them, newest first; or a function that returns them,
                which is called for each signature.

        Raises:
            InvalidArgument: It is none of these, or empty.
        """
        self._given: Any = given.given if isinstance(given, Secret) else given
        if not callable(self._given):
            self._given = _checked(self._given)

    @property
    def given(self) -> SecretArgument:
        """What the handle was opened with. Do not show it."""
        own: SecretArgument = self._given
        return own

    def signer(self) -> Signer:
        """Return what signs with the secrets of the moment.

        Raises:
            Exception: Raised by the function that returns them.
        """
        given = self._given
        return _signer_of(_checked(given()) if callable(given) else given)

    def __repr__(self) -> str:
        """Return a text without the secrets."""
        return "<Secret>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the secrets for a child process, and a function that returns them for any.

        Raises:
            TypeError: A pickle that is not for a child process would show the secrets.
        """
        if not callable(self._given) and context.get_spawning_popen() is None:
            raise TypeError(
                "a cache with secret= can only be pickled as an argument of a multiprocessing "
                "process, because the pickle contains the secret; open the cache in the other "
                "process, or pass a function that returns the secret as secret="
            )
        return Secret, (self._given,)


def _checked(given: Any) -> tuple[bytes, ...]:
    given = (given,) if isinstance(given, (str, bytes, bytearray)) else given
    try:
        secrets = tuple(given)
    except TypeError:
        secrets = (None,)
    if not secrets or not all(isinstance(one, (str, bytes, bytearray)) and one for one in secrets):
        raise InvalidArgument(
            "secret must be a str or bytes, several of them with the newest first, or a function "
            "that returns them, and not empty; to make one, call secrets.token_hex()"
        )
    return tuple(one.encode() if isinstance(one, str) else bytes(one) for one in secrets)


@functools.lru_cache(maxsize=16)
def _signer_of(secrets: tuple[bytes, ...]) -> Signer:
    return Signer(secrets)


def _mac(prepared: hmac.HMAC, cache_id: bytes, key: bytes, content: bytes | memoryview) -> bytes:
    mac = prepared.copy()
    mac.update(cache_id + len(key).to_bytes(8, "little") + key)
    mac.update(content)
    return mac.digest()
