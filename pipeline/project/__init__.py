"""pipeline.project."""
