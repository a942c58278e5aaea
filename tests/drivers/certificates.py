"""A certificate for servers on loopback, which only those trust that are given its file."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def certificate(folder: Path) -> tuple[str, str]:
    """Make a certificate that signs itself. Return the paths of the certificate and its key."""
    paths = str(folder / "certificate.pem"), str(folder / "key.pem")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", "/CN=localhost", "-out", paths[0]),
            *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", paths[1]),
        ],
        check=True,
        capture_output=True,
    )
    return paths
