"""tests.pipeline.turn."""
