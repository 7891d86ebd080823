"""Recorded streams played again, as the upstream that they were recorded from would send them."""
