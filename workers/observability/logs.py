"""JSON logs, one object a line on standard error, with turn and partition bound where they are known.

Never logged: request and response bodies, keys, secrets, headers.
"""

import logging
import sys
from typing import Any, cast

import structlog

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

Logger = structlog.typing.FilteringBoundLogger


def configure(level: str = "info", **bound: Any) -> None:
    """Set the process up: JSON to standard error, the given names on every line."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=_to_stderr,
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(service="foldline", **bound)


def bind(**names: Any) -> Logger:
    """A logger with these names on every line: ``bind(turn=turn, partition=7)``."""
    return cast("Logger", structlog.get_logger(**names))


def _to_stderr(*_: Any) -> structlog.PrintLogger:
    """Write to what standard error is now, not to what it was at start."""
    return structlog.PrintLogger(file=sys.stderr)
