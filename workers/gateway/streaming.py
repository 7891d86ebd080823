"""The streaming settings of a turn, merged when it is submitted and frozen in its first event."""

from collections.abc import Mapping
from typing import Any

from pipeline.events import Target
from pipeline.settings import SettingError
from workers.config import Config, streaming
from workers.gateway.errors import HttpError


def stream_settings(
    config: Config, said: Mapping[str, Any], runtime: str, targets: list[Target]
) -> dict[str, str | int]:
    """Return every setting. Blocks are of the turn, not of a target, so the first target's account and channel count for all."""
    channel = account = ""
    if targets:
        known = config.targets.get(targets[0].name)
        channel = targets[0].channel
        account = (known.account if known is not None else "") or targets[0].name
    try:
        made = streaming.resolved(config.streaming, runtime=runtime, channel=channel, account=account, request=said)
    except SettingError as error:
        raise HttpError(400, "invalid_value", str(error), param=f"settings.{error.key[:80]}") from None
    return made.values
