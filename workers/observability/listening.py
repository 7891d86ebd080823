"""A port that a process cannot have, in words."""

import os


class CannotListenError(Exception):
    """The address is taken, or none of this machine's; names the settings that say it."""

    def __init__(self, section: str, host: str, port: int, error: OSError) -> None:
        # its own words repeat the address; a name that resolves to nothing has a negative number
        number = error.errno or 0
        why = os.strerror(number) if number > 0 else error.strerror or str(error)
        super().__init__(f"{section}.host and {section}.port: cannot listen at {host}:{port} ({why})")
