"""Which channel sends how. Hand-written: a channel is added here and nowhere else."""

from collections.abc import Callable, Mapping

from workers.config import ConfigError, TargetConfig
from workers.config.channels import secret_variable
from workers.config.credentials import secret_problem
from workers.delivery.channels import console, discord, matrix, slack, telegram, webhook
from workers.delivery.channels.contract import Channel
from workers.delivery.channels.recorder import Recorder
from workers.delivery.terms import Terms

CHANNELS: dict[str, Callable[[TargetConfig, str], Channel]] = {
    "console": lambda config, _secret: console.Console(config),
    "discord": discord.Discord,
    "matrix": matrix.Matrix,
    "slack": slack.Slack,
    "telegram": telegram.Telegram,
    "webhook": webhook.Webhook,
}
TERMS: dict[str, Terms] = {
    "console": console.TERMS,
    "discord": discord.TERMS,
    "matrix": matrix.TERMS,
    "slack": slack.TERMS,
    "telegram": telegram.TERMS,
    "webhook": webhook.TERMS,
}


class MissingSecretError(ConfigError):
    """A target names a variable for its secret that is not set, or holds no secret."""


def open_channels(targets: Mapping[str, TargetConfig], environ: Mapping[str, str]) -> dict[str, Channel]:
    """Make the adapter of every configured target; secrets are read here, from the variables that the targets name."""
    channels: dict[str, Channel] = {}
    for name, target in targets.items():
        setting, variable = secret_variable(target)
        secret = environ.get(variable, "") if variable else ""
        if variable and not secret:
            raise MissingSecretError(f"targets.{name}.{setting}: the variable {variable} is not set")
        if variable and (problem := secret_problem(target.channel, secret)):
            raise MissingSecretError(f"targets.{name}.{setting}: {variable}: {problem}")
        channel = CHANNELS[target.channel](target, secret)
        channels[name] = Recorder(target.record, channel) if target.record else channel
    return channels
