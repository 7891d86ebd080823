"""workers.streams."""
