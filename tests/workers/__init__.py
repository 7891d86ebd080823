"""tests.workers."""
