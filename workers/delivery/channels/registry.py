"""Which channel sends how. Hand-written: a channel is added here and nowhere else."""

from collections.abc import Callable, Mapping

from workers.config import TargetConfig
from workers.delivery.channels.console import Console
from workers.delivery.channels.contract import Channel
from workers.delivery.channels.webhook import Webhook

CHANNELS: dict[str, Callable[[TargetConfig, str], Channel]] = {
    "console": lambda config, _secret: Console(config),
    "webhook": Webhook,
}


class MissingSecretError(ValueError):
    """A target names a variable for its secret that is not set, or holds no secret."""


def open_channels(targets: Mapping[str, TargetConfig], environ: Mapping[str, str]) -> dict[str, Channel]:
    """Make the adapter of every configured target; secrets are read here, from the variables that the targets name."""
    channels: dict[str, Channel] = {}
    for name, target in targets.items():
        secret = environ.get(target.secret_env, "") if target.secret_env else ""
        if target.secret_env and not secret:
            raise MissingSecretError(f"targets.{name}.secret_env: the variable {target.secret_env} is not set")
        try:
            channels[name] = CHANNELS[target.channel](target, secret)
        except ValueError as error:
            raise MissingSecretError(f"targets.{name}.secret_env: {target.secret_env}: {error}") from None
    return channels
