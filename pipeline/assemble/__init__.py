"""Text to blocks: one rule set for every runtime."""

from pipeline.assemble.answer import Answer
from pipeline.assemble.text import Assembler

__all__ = ["Answer", "Assembler"]
