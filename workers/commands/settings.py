"""`foldline config`: every setting in force and where it came from."""

import re
from typing import Any

from workers.commands.output import Json, show_rows
from workers.commands.session import read_settings

_PASSWORD = re.compile(r"(?<=://)([^:@/]*):[^@/]*@")


def show_config(as_json: Json = False) -> None:
    """Print every value and its source; a password in an address is hidden."""
    rows = [
        {"key": setting.key, "value": without_password(setting.value), "source": setting.source}
        for setting in read_settings().settings
    ]
    show_rows(rows, ("key", "value", "source"), as_json=as_json, empty="nothing is configured")


def without_password(value: Any) -> Any:
    """Hide the password of an address."""
    return _PASSWORD.sub(r"\1:***@", value) if isinstance(value, str) else value
