"""The public stream: what a client sees of a turn."""

from pipeline.relay.stream import Relay

__all__ = ["Relay"]
