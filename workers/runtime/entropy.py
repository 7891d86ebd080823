"""The only source of chance: names that must be unique, and jitter."""

import os
import random
import secrets
import socket


def nonce() -> str:
    """16 hex digits: the random half of a token."""
    return secrets.token_hex(8)


def hex24() -> str:
    """24 hex digits: the random part of a turn id."""
    return secrets.token_hex(12)


def worker_name(role: str) -> str:
    """A name that no other process start has: role, host, process id and chance."""
    return f"{role}-{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"


def jitter(low: float, high: float) -> float:
    """A number between the two, for backoff."""
    return random.uniform(low, high)
