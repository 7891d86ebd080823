"""pipeline.fold."""
