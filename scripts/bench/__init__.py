"""scripts.bench."""
