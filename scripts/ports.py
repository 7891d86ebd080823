"""Ports for servers that are started, killed and started again on the same port while others do the same beside them."""

import random
import socket

LOWEST, HIGHEST = 10_240, 32_767
"""Below the ports that the kernel gives to connections and to whoever asks for any: a killed server's port stays free for it."""
_CHANCE = random.SystemRandom()  # not seeded: processes that start together must not choose alike


def free_port() -> int:
    """A port that nobody listens on now."""
    while True:
        port = _CHANCE.randint(LOWEST, HIGHEST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
