"""The grammar of a turn."""

from enum import Enum


class Validation(Enum):
    """How an upstream's breaches are met: refused by name, or tolerated and mended."""

    STRICT = "strict"
    LENIENT = "lenient"
