"""tests.scripts."""
