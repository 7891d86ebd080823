"""The commands of `foldline`, one module for each; `workers.cli` puts them together."""
