"""A port that a process cannot have, in words."""


class CannotListenError(Exception):
    """The address is taken, or none of this machine's; names the settings that say it."""

    def __init__(self, section: str, host: str, port: int, error: OSError) -> None:
        super().__init__(
            f"{section}.host and {section}.port: cannot listen at {host}:{port} ({error.strerror or error})"
        )
