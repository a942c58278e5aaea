"""Pickles in signed envelopes, for objects that the codec cannot store.

Unpickling can run code. An envelope is unpickled only if its HMAC-SHA256 proves that a holder of
the signing key stored it under this entry of this cache. The signing key is not in the file. An
attacker who can write to the file but has no key cannot run code. They can remove entries, replace
them with plain values, and restore an older object of the same entry.

An envelope is stored as a ``bytearray``, because the codec supports it and few programs cache one.

==========  ======================================  =================================
first byte  content                                 object
==========  ======================================  =================================
0           bytes                                   a ``bytearray`` of these bytes
1           32 bytes of HMAC, then a pickle         the pickled object
==========  ======================================  =================================

The HMAC covers the cache's id (16 bytes), ``ascii()`` of the entry's key, a zero byte, and the
pickle. This module knows no cache, no framework and no settings.
"""

from __future__ import annotations

import hmac
import pickle
from collections.abc import Sequence
from typing import Any

from tuckbox.errors import TuckboxError
from tuckbox.keys import Key

__all__ = ["EnvelopeRejected", "Envelopes"]

_BYTEARRAY = 0
_PICKLE = 1
_MAC_BYTES = 32
_HEADER_BYTES = 1 + _MAC_BYTES


class EnvelopeRejected(TuckboxError):
    """An envelope was not unpickled, because its kind or its signature is wrong."""


class Envelopes:
    """Creates and opens envelopes with a set of signing keys.

    Example:
        >>> envelopes = Envelopes([b"k" * 32])
        >>> envelope = envelopes.wrap(cache.id, "key", 3 + 4j)
        >>> envelopes.unwrap(cache.id, "key", envelope)
        (3+4j)
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        """Prepare the signing keys.

        Args:
            keys: Secrets of 32 bytes, used for nothing else. The first one signs; all of them
                verify. Without keys, nothing is pickled or unpickled.
        """
        # Copying a prepared HMAC is cheaper than creating one.
        self._hmacs = tuple(hmac.new(key, digestmod="sha256") for key in keys)

    def wrap(self, cache_id: bytes, key: Key, value: object) -> bytearray:
        """Return the envelope of an object.

        Args:
            cache_id: The id of the cache that will store it.
            key: The key of its entry.
            value: The object.

        Raises:
            Exception: Raised by pickling: ``pickle.PicklingError``, or an error of the object.
        """
        if type(value) is bytearray:
            return bytearray((_BYTEARRAY,)) + value
        pickled = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        mac = _mac(self._hmacs[0], cache_id, key, pickled)
        return bytearray(b"".join((bytes((_PICKLE,)), mac, pickled)))

    def unwrap(self, cache_id: bytes, key: Key, envelope: bytearray) -> Any:
        """Return the object in an envelope.

        Args:
            cache_id: The id of the cache that the envelope comes from.
            key: The key of its entry.
            envelope: The envelope.

        Raises:
            EnvelopeRejected: No known key signed it for this entry. It was not unpickled.
            Exception: Raised by unpickling a signed object, for example if its class is missing.
        """
        kind = envelope[0] if envelope else None
        if kind == _BYTEARRAY:
            return envelope[1:]
        if kind != _PICKLE:
            raise EnvelopeRejected("it has a kind that this version does not know")
        if not self._hmacs:
            raise EnvelopeRejected("it is pickled, and unpickling is disabled")
        content = memoryview(envelope)
        mac, pickled = content[1:_HEADER_BYTES], content[_HEADER_BYTES:]
        expected = (_mac(prepared, cache_id, key, pickled) for prepared in self._hmacs)
        if not any(hmac.compare_digest(own, mac) for own in expected):
            raise EnvelopeRejected("it is pickled, but not signed for this entry with our key")
        return pickle.loads(pickled)  # noqa: S301 - A holder of the key stored it.


def _mac(prepared: hmac.HMAC, cache_id: bytes, key: Key, pickled: bytes | memoryview) -> bytes:
    mac = prepared.copy()
    mac.update(cache_id)
    # `ascii` of a key contains no zero byte, and is the same in every version of Python.
    mac.update(ascii(key).encode() + b"\0")
    mac.update(pickled)
    return mac.digest()
