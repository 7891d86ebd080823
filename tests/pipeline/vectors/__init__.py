"""The public vectors of blocks and messages, each as a test by its meaning; `table.py` says which is where."""
