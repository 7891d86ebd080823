"""One turn: its state machine, and the drivers that take a recorded body, or events at hand, in one go."""

from pipeline.output import Block, Frame, Output, Payload
from pipeline.turn.machine import Turn
from pipeline.turn.recording import Decoded, collect, decode
from pipeline.validate import Validation

__all__ = ["Block", "Decoded", "Frame", "Output", "Payload", "Turn", "Validation", "collect", "decode"]
