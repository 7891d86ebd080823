"""tests.pipeline.kinds."""
