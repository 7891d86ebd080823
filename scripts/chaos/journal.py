"""Append-only logs, one JSON object a line, each line out of our hands before anything is done about what it says."""

from pathlib import Path
from typing import Any

import msgspec


class Journal:
    """One log file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def write(self, **members: Any) -> None:
        """Add a line."""
        self._file.write(msgspec.json.encode(members) + b"\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()
