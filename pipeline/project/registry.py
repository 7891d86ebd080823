"""Which channel projects how. Hand-written: a channel is added here and nowhere else."""

from pipeline.output import Block
from pipeline.project import console, discord, matrix, slack, telegram, webhook
from pipeline.project.parts import Channel, Part, Profile, Projector

CHANNELS: dict[str, Channel] = {
    "console": console.CHANNEL,
    "discord": discord.CHANNEL,
    "matrix": matrix.CHANNEL,
    "slack": slack.CHANNEL,
    "telegram": telegram.CHANNEL,
    "webhook": webhook.CHANNEL,
}
PROJECTORS: dict[str, Projector] = {name: channel.project for name, channel in CHANNELS.items()}


def profile_of(
    channel: str,
    *,
    name: str = "",
    turn: str = "",
    session: str = "",
    recipient: str | None = None,
    limit: int | None = None,
    max_lines: int | None = None,
) -> Profile:
    """Return a channel's profile; a limit that is given replaces the channel's own."""
    bounds = CHANNELS[channel]
    return Profile(
        channel=channel,
        name=name,
        turn=turn,
        session=session,
        recipient=recipient,
        limit=bounds.limit if limit is None else limit,
        unit=bounds.unit,
        max_lines=bounds.max_lines if max_lines is None else max_lines,
    )


def shown(channel: str, body: str) -> str:
    """Return what a reader is shown of a part's body."""
    return CHANNELS[channel].shown(body)


def project(block: Block, profile: Profile) -> list[Part]:
    """Project a block for the profile's channel; a suppressed block gives no part."""
    return PROJECTORS[profile.channel](block, profile)
