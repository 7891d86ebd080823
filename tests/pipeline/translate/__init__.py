"""tests.pipeline.translate."""
