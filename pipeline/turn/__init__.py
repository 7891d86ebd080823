"""One turn: its state machine, and the driver that decodes a recorded body in one go."""

from pipeline.output import Block, Frame, Output, Payload
from pipeline.turn.machine import Turn
from pipeline.turn.recording import Decoded, decode
from pipeline.validate import Validation

__all__ = ["Block", "Decoded", "Frame", "Output", "Payload", "Turn", "Validation", "decode"]
