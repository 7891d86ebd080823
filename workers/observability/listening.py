"""Where a process listens, as others reach it; and a port that it cannot have, in words."""

import os

ANYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound
"""Hosts that mean every address of the machine, each with the one that its own programs take."""


def url_of(host: str, port: int) -> str:
    """The address under which a program on this machine reaches what listens there."""
    named = ANYWHERE.get(host, host)
    return f"http://{f'[{named}]' if ':' in named else named}:{port}"


class CannotListenError(Exception):
    """The address is taken, or none of this machine's; names the settings that say it."""

    def __init__(self, section: str, host: str, port: int, error: OSError) -> None:
        # its own words repeat the address; a name that resolves to nothing has a negative number
        number = error.errno or 0
        why = os.strerror(number) if number > 0 else error.strerror or str(error)
        super().__init__(f"{section}.host and {section}.port: cannot listen at {host}:{port} ({why})")
