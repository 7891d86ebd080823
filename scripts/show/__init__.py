"""The parts of the demonstration behind `scripts/run`."""
