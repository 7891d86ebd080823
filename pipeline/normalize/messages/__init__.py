"""The Anthropic Messages wire, and the servers that speak it."""

from pipeline.normalize.messages.adapter import MessagesAdapter

__all__ = ["MessagesAdapter"]
