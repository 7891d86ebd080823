"""The OpenAI Chat Completions wire, and the servers that speak it."""

from pipeline.normalize.chat.adapter import ChatAdapter

__all__ = ["ChatAdapter"]
