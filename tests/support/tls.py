"""A certificate authority made for one test, and a server that speaks TLS with a certificate of it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.servers import Server, free_port


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
    """A server with a plain port for the test and a TLS port for the fleet. The wheel's Valkey is built without TLS."""

    def __init__(self, authority: Authority, *, asks_certificates: bool = False) -> None:
        self.tls_port = free_port()
        cert, key = authority.issue("server")
        super().__init__(
            *("--tls-port", str(self.tls_port), "--tls-cert-file", str(cert), "--tls-key-file", str(key)),
            *("--tls-ca-cert-file", str(authority.file), "--tls-auth-clients", "yes" if asks_certificates else "no"),
            kind="redis-server",
            aof=True,
        )

    @property
    def tls_url(self) -> str:
        """Where clients connect by TLS."""
        return f"rediss://127.0.0.1:{self.tls_port}/0"


def _openssl(*words: object) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=60)
