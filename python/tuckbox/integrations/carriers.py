"""Objects that are no plain values, as values that are: pickled, and signed.

A pickle can run code when it is read. None is read here that does not first prove, by an
HMAC-SHA256 under a key that is not in the file, that a holder of that key wrote it for this very
entry of this very cache. Who can write to the file and has no key can take entries away, put plain
values in their place, and put back an older object of the same entry; he cannot have code run.

What carries an object is a ``bytearray``: the codec stores it as it is, and few programs cache one.

==========  ======================================  =================================
first byte  what follows it                         what it carries
==========  ======================================  =================================
0           bytes                                   a ``bytearray`` of these bytes
1           32 bytes of HMAC, then a pickle         the object
==========  ======================================  =================================

The HMAC is that of the 16 bytes of the cache's id, ``ascii()`` of the entry's key, a zero byte, and
the pickle.

Owns this form. Knows no cache and no framework, and not where keys come from.
"""

from __future__ import annotations

import hmac
import pickle
from typing import TYPE_CHECKING, Any

from tuckbox.errors import TuckboxError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuckbox.keys import Key

__all__ = ["CarrierRefused", "Carriers"]

_BYTEARRAY = 0
_PICKLE = 1
_MAC_BYTES = 32
_HEAD_BYTES = 1 + _MAC_BYTES


class CarrierRefused(TuckboxError):
    """A carrier whose content was not read, because nothing vouches for it."""


class Carriers:
    """Makes carriers and reads them."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        """Take the keys of the signatures.

        Args:
            keys: The first signs, and each is accepted when reading; 32 bytes each, kept for this
                purpose alone. Without any, nothing is pickled or unpickled.
        """
        # Copies of these are cheaper than beginning anew.
        self._begun = tuple(hmac.new(key, digestmod="sha256") for key in keys)

    def wrap(self, cache_id: bytes, key: Key, value: object) -> bytearray:
        """Return the carrier of an object, for the entry of ``key`` in the cache of this id.

        Raises:
            Exception: What pickling raises: ``pickle.PicklingError``, or what the object does.
        """
        if type(value) is bytearray:
            return bytearray((_BYTEARRAY,)) + value
        pickled = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        mac = _mac(self._begun[0], cache_id, key, pickled)
        return bytearray(b"".join((bytes((_PICKLE,)), mac, pickled)))

    def unwrap(self, cache_id: bytes, key: Key, carrier: bytearray) -> Any:
        """Return the object of a carrier that was found in the entry of ``key`` of this cache.

        Raises:
            CarrierRefused: Nobody who has a key signed it for this entry. It was not unpickled.
            Exception: What unpickling raises. It was signed: its class may have gone since.
        """
        kind = carrier[0] if carrier else None
        if kind == _BYTEARRAY:
            return carrier[1:]
        if kind != _PICKLE:
            raise CarrierRefused("it is of a kind that this version does not know")
        if not self._begun:
            raise CarrierRefused("it is pickled, and nothing is unpickled here")
        content = memoryview(carrier)
        mac, pickled = content[1:_HEAD_BYTES], content[_HEAD_BYTES:]
        ours = (_mac(begun, cache_id, key, pickled) for begun in self._begun)
        if not any(hmac.compare_digest(own, mac) for own in ours):
            raise CarrierRefused("it is pickled, and not signed for this entry with a key of ours")
        return pickle.loads(pickled)  # noqa: S301 - A holder of the key wrote it.


def _mac(begun: hmac.HMAC, cache_id: bytes, key: Key, pickled: bytes | memoryview) -> bytes:
    mac = begun.copy()
    mac.update(cache_id)
    # `ascii` of a key has no zero byte, and is the same in every version of Python.
    mac.update(ascii(key).encode() + b"\0")
    mac.update(pickled)
    return mac.digest()
