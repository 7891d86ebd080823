"""The OpenAI Responses wire."""

from pipeline.normalize.responses.adapter import ResponsesAdapter

__all__ = ["ResponsesAdapter"]
