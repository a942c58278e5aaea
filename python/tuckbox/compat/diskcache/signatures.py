"""`Signatures`: proof that a holder of a secret made the pickles of a directory.

Nothing here unpickles. Must not know how entries are stored.
"""

from __future__ import annotations

import os
from typing import Any, Final

from tuckbox.errors import EntryRefused, InvalidArgument
from tuckbox.signing import Secret, SecretArgument

__all__ = [
    "SIGNED",
    "Secret",
    "SecretArgument",
    "Signatures",
    "path_inside",
    "refuse_signed",
]

SIGNED: Final = "signed"
"""The setting that proves which secret a directory is used with. Never the secret itself."""


class Signatures:
    """Signs for one directory, and verifies.

    Example:
        >>> signatures = Signatures(Secret("a secret"), bytes(16))
        >>> signed = signatures.sign("value", b"content")
        >>> bytes(signatures.verify("value", signed))
        b'content'
    """

    def __init__(self, secret: Secret, cache_id: bytes) -> None:
        """Sign nothing yet.

        Args:
            secret: The secrets: the first one signs, and all of them verify.
            cache_id: The id of the directory's Tuckbox file.
        """
        self._secret = secret
        self._id = cache_id

    def sign(self, kind: str, content: bytes) -> bytes:
        """Return a signature followed by the content.

        Args:
            kind: ``"key"``, ``"value"`` or ``"journal"``: each is only valid as what it is.
            content: The bytes to sign.
        """
        return self._secret.signer().sign(self._id, _name(kind), content)

    def verify(self, kind: str, signed: Any) -> memoryview:
        """Return the content of what `sign` returned.

        Raises:
            EntryRefused: No secret signed it for this directory.
        """
        try:
            return self._secret.signer().verify(self._id, _name(kind), signed)
        except EntryRefused:
            raise EntryRefused(
                f"a {kind} is not signed for this directory with a secret that was given, so it "
                "is not unpickled; pass the secret that signed it, or clear the cache"
            ) from None

    def settings(self, stored: dict[str, Any], directory: str) -> dict[str, Any]:
        """Return what to store in the settings of a directory.

        Args:
            stored: The settings that it has; empty in a new directory.
            directory: Its name, for errors.

        Raises:
            InvalidArgument: The directory is used without a secret, or with another one.
        """
        if stored and SIGNED not in stored:
            raise InvalidArgument(
                f"{directory} is used without a secret, so its pickles are not signed; give "
                "another directory, or remove this one"
            )
        if stored:
            try:
                self.verify("directory", stored[SIGNED])
            except (EntryRefused, TypeError):
                raise InvalidArgument(
                    f"{directory} is used with another secret; pass that one, or several with the "
                    "newest first, or remove the directory"
                ) from None
        return {SIGNED: self.sign("directory", b"")}


def refuse_signed(stored: dict[str, Any], directory: str) -> None:
    """Raise an error if a directory is used with a secret.

    Raises:
        InvalidArgument: It is.
    """
    if SIGNED in stored:
        raise InvalidArgument(f"{directory} is used with a secret; pass it as secret=")


def path_inside(directory: str, name: str) -> str:
    """Return the path of a file that an entry names, which somebody may have forged.

    Raises:
        EntryRefused: The file is not in the directory.
    """
    path = os.path.join(directory, name)
    if not os.path.realpath(path).startswith(os.path.realpath(directory) + os.sep):
        raise EntryRefused(f"an entry names {path}, which is outside of the directory; delete it")
    return path


def _name(kind: str) -> bytes:
    return b"diskcache " + kind.encode()
