"""workers.fold."""
