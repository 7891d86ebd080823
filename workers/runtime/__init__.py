"""workers.runtime."""
