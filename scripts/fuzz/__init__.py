"""Streams of every wire, spoiled at random, through the whole core: `python -m scripts.fuzz`."""
