"""The Gemini `streamGenerateContent` wire."""

from pipeline.normalize.gemini.adapter import GeminiAdapter

__all__ = ["GeminiAdapter"]
