"""tests.workers.gateway."""
