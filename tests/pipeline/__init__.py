"""tests.pipeline."""
