"""workers.delivery.channels."""
