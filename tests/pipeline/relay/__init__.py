"""tests.pipeline.relay."""
