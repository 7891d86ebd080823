"""pipeline.normalize."""
