"""Bytes to server-sent events, to the WHATWG rules at any cut."""
