"""Which channel projects how. Hand-written: a channel is added here and nowhere else."""

from pipeline.output import Block
from pipeline.project import console, webhook
from pipeline.project.parts import Part, Profile, Projector

PROJECTORS: dict[str, Projector] = {
    "console": console.project,
    "webhook": webhook.project,
}


def project(block: Block, profile: Profile) -> list[Part]:
    """Project a block for the profile's channel; a suppressed block gives no part."""
    return PROJECTORS[profile.channel](block, profile)
