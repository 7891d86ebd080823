"""Certificates for tests alone, good for a hundred years: two authorities, and two servers that the first one vouches for.

`loopback.pem` is for 127.0.0.1, `elsewhere.pem` for another host; both hold their keys, which open nothing.
"""

import ssl
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
CA, OTHER_CA = str(FOLDER / "ca.pem"), str(FOLDER / "other-ca.pem")


def server_tls(name: str = "loopback") -> ssl.SSLContext:
    """How a server shows one of the certificates."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(FOLDER / f"{name}.pem")
    return context
