"""workers.ingest."""
