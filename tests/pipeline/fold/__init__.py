"""tests.pipeline.fold."""
