"""workers.delivery."""
