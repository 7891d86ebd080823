"""Loopback servers of the channels' interfaces, for tests and for the chaos run: the rules that the channels document, each with its page."""
