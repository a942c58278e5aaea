"""What a handle stores that is no plain value: pickles, the bytes of a codec, compressed values.

`Objects` belongs to one handle. The extension calls it only for values that the plain codec does
not take, and for entries that such values have become. A registered type comes first, then the
codec; pickle gets what is neither plain nor registered. Must not know files, or how entries are
stored.

==== ===================================================================
code content (see ``crates/python/src/codec``)
==== ===================================================================
22   a pickle, from a handle with ``pickle="private"``
23   a signature and a pickle: see `tuckbox.signing`
24   length (1 byte) and name of a codec, then what it returned
==== ===================================================================
"""

from __future__ import annotations

import functools
import pickle
import re
from collections.abc import Iterable
from typing import Any, Final, Literal, NoReturn, Optional, Protocol, SupportsIndex, Union

from tuckbox import compression, registry
from tuckbox.errors import EntryCorrupt, EntryRefused, InvalidArgument, InvalidSize
from tuckbox.signing import Secret, SecretArgument
from tuckbox.sizes import parse_size

__all__ = ["PICKLED", "SIGNED", "Codec", "Objects", "Pickle"]

Pickle = Literal["never", "signed", "private"]
"""Whether objects are pickled: see `tuckbox.Cache`."""

PICKLED: Final = 22
"""The code of a pickle."""
SIGNED: Final = 23
"""The code of a signed pickle."""
_CUSTOM: Final = 24

_CODEC_NAME = re.compile(r"[A-Za-z0-9._:+-]{1,100}", re.ASCII)


class Codec(Protocol):
    """What ``codec=`` takes: any object with these."""

    name: str
    """Stored with each entry: up to 100 letters, digits and ``._:+-``. Names one format."""

    def encode(self, value: Any) -> Union[bytes, bytearray, memoryview]:
        """Return the bytes of a value, or NotImplemented to store it as a plain value."""

    def decode(self, content: bytes) -> Any:
        """Return the value. The bytes may have been forged."""


class Objects:
    """How one handle stores what is no plain value.

    Attributes:
        pickle: The mode.
        takes: Which values `encode` gets: 0 none, 1 those that are not plain, 2 all but 64-bit
            ints. Values of registered types come before.
        compress_min_bytes: The length from which on `compress` gets values, or None.
        by_type: The registered types.
        by_name: The registered names.

    Example:
        >>> Objects(pickle="signed", secret="a secret")
        <Objects pickle='signed'>
    """

    by_type = registry.by_type
    by_name = registry.by_name
    unregistered = staticmethod(registry.unregistered)
    decompress = staticmethod(compression.decompress)

    def __init__(
        self,
        *,
        pickle: Pickle = "never",
        secret: Union[SecretArgument, Secret, None] = None,
        codec: Union[Codec, Iterable[Codec], None] = None,
        compress: Union[float, str, SupportsIndex, None] = None,
        compressor: compression.Algorithm = "zstd",
    ) -> None:
        """Check the options. See `tuckbox.Cache`.

        Raises:
            InvalidArgument: An option is invalid, or contradicts another one.
        """
        self.pickle = _checked_pickle(pickle, secret)
        self._secret = Secret(secret) if secret is not None else None
        self._codecs = _checked_codecs(codec)
        if self._codecs and pickle != "never":
            raise InvalidArgument('codec and pickle exclude each other: pass pickle="never"')
        self.takes = 2 if self._codecs else int(pickle != "never")
        self.compress_min_bytes = _checked_compress(compress)
        if compress is not None:
            self._number, self._compress = compression.compressor(compressor)
        self._given: dict[str, Any] = {
            "codec": codec,
            "compress": compress,
            "compressor": compressor,
        }

    def encode(self, value: object, key: bytes, cache_id: bytes) -> Optional[tuple[int, bytes]]:
        """Encode a whole value.

        Args:
            value: The object.
            key: The encoded key of its entry.
            cache_id: The id of the cache that will store it.

        Returns:
            A code and the bytes; None if it is to be stored as a plain value.

        Raises:
            Exception: Raised by pickling or by the codec.
        """
        if self._codecs:
            return self._encode_by_codec(value)
        pickled = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        if self._secret is None:
            return PICKLED, pickled
        return SIGNED, self._secret.signer().sign(cache_id, key, pickled)

    def _encode_by_codec(self, value: object) -> tuple[int, bytes] | None:
        codec = next(iter(self._codecs.values()))
        content: Any = codec.encode(value)
        if content is NotImplemented:
            return None
        if not isinstance(content, (bytes, bytearray, memoryview)):
            kind = type(content).__name__
            raise TypeError(f"encode of the codec {codec.name!r} must return bytes, not {kind}")
        name = codec.name.encode()
        return _CUSTOM, b"".join((bytes((len(name),)), name, content))

    def decode(self, code: int, content: bytes, key: bytes, cache_id: bytes) -> Any:
        """Decode what `encode` returned.

        Args:
            code: The code.
            content: The bytes. May be anything.
            key: The encoded key of their entry.
            cache_id: The id of the cache that they come from.

        Raises:
            EntryRefused: This handle may not unpickle it, or has no such codec.
            EntryCorrupt: The codec cannot decode it.
            Exception: Raised by unpickling, for example if a class is missing.
        """
        if code == _CUSTOM:
            return self._decode_by_codec(content)
        if code == SIGNED and self._secret is not None:
            content_view = self._secret.signer().verify(cache_id, key, content)
            return pickle.loads(content_view)  # noqa: S301 - A holder of the secret stored it.
        if code == PICKLED and self.pickle == "private":
            return pickle.loads(content)  # noqa: S301 - Only this user can write to the file.
        own = "signed" if code == SIGNED else "private"
        remedy = f'pickle="{own}"' + (" and its secret" if code == SIGNED else "")
        raise EntryRefused(
            f'it is a pickle of a handle with pickle="{own}", and this one has '
            f'pickle="{self.pickle}"; open the cache with {remedy} if you trust it, or delete it'
        )

    def _decode_by_codec(self, content: bytes) -> Any:
        length = content[0] if content else 0
        name = content[1 : 1 + length].decode("ascii", "replace")
        codec = self._codecs.get(name)
        if codec is None:
            known = ", ".join(map(repr, self._codecs)) or "none"
            raise EntryRefused(
                f"it was encoded by the codec {name!r}, and this handle has {known}; open the "
                "cache with that codec, or delete it"
            )
        try:
            return codec.decode(content[1 + length :])
        except Exception as error:
            raise EntryCorrupt(
                f"the codec {name!r} cannot decode it ({type(error).__name__}: {error}); store it "
                "again, or delete it"
            ) from error

    def signed_again(
        self, signed: bytes, old: tuple[bytes, bytes], new: tuple[bytes, bytes]
    ) -> bytes:
        """Sign a pickle for another entry, if a secret of this handle signed it. Unpickles nothing.

        Args:
            signed: The signature and the pickle.
            old: The id of the cache and the encoded key for which it was signed.
            new: Those of the other entry.

        Raises:
            EntryRefused: The handle has no secret, or none that signed it for that entry.
        """
        if self._secret is None:
            raise EntryRefused(
                "it is a signed pickle, and this handle has no secret to sign it for another entry"
            )
        signer = self._secret.signer()
        cache_id, key = old
        return signer.sign(*new, bytes(signer.verify(cache_id, key, signed)))

    def compress(self, raw: bytes) -> Optional[tuple[int, bytes]]:
        """Compress a value.

        Args:
            raw: Its bytes.

        Returns:
            The number of the algorithm and the compressed bytes; None if they are not shorter.
        """
        compressed = self._compress(raw)
        # The code, the number, the tag and the length.
        return (self._number, compressed) if len(compressed) + 13 < len(raw) else None

    def __repr__(self) -> str:
        """Return the mode, and no secret."""
        codecs = f" codec={', '.join(self._codecs)}" if self._codecs else ""
        return f"<{type(self).__name__} pickle={self.pickle!r}{codecs}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the options.

        Raises:
            TypeError: There is a secret, and the pickle is not for a child process.
        """
        given: dict[str, Any] = {**self._given, "pickle": self.pickle, "secret": self._secret}
        return functools.partial(type(self), **given), ()


def _checked_pickle(mode: Pickle, secret: object) -> Pickle:
    if mode not in {"never", "signed", "private"}:
        raise InvalidArgument(f'pickle must be "never", "signed" or "private", not {mode!r}')
    if mode == "signed" and secret is None:
        raise InvalidArgument(
            'pickle="signed" needs secret=; to make one, call secrets.token_hex()'
        )
    if mode != "signed" and secret is not None:
        raise InvalidArgument('secret is only used with pickle="signed"')
    return mode


def _checked_compress(compress: Any) -> int | None:
    try:
        return None if compress is None else parse_size(compress)
    except InvalidSize as error:
        raise InvalidArgument(
            f"compress, the length from which on it compresses: {error}"
        ) from None


def _checked_codecs(codec: Any) -> dict[str, Codec]:
    if codec is None:
        return {}
    given = [codec] if hasattr(codec, "encode") else codec
    try:
        codecs = list(given)
    except TypeError:
        codecs = []
    for one in codecs or [codec]:
        if not all(callable(getattr(one, part, None)) for part in ("encode", "decode")):
            _refuse_codec(f"got {type(one).__name__}")
        name = getattr(one, "name", None)
        if not isinstance(name, str) or not _CODEC_NAME.fullmatch(name):
            _refuse_codec(f"its name is {name!r}")
    named = {one.name: one for one in codecs}
    if len(named) < len(codecs):
        _refuse_codec("two have the same name")
    return named


def _refuse_codec(why: str) -> NoReturn:
    raise InvalidArgument(
        "codec must be an object with encode, decode, and a name of up to 100 letters, digits and "
        f"._:+-, or several of them, newest first: {why}"
    )
