"""tests.fleet."""
