"""workers.ingest.sources."""
