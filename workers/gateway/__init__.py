"""workers.gateway."""
