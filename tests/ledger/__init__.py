"""tests.ledger."""
