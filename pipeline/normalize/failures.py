"""An upstream's HTTP error answer to the error that ends the turn."""

from collections.abc import Mapping

from pipeline.events import ErrorInfo
from pipeline.limits import Limits


def http_error(status: int, headers: Mapping[str, str], body: bytes, limits: Limits | None = None) -> ErrorInfo:
    """Read code, type and message out of an error answer, whatever its body's form."""
    raise NotImplementedError
