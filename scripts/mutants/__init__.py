"""Planted faults: named patches to a copy of the tree, one at a time, and the test that catches each.

A rule that no test breaks without is no rule. `python -m scripts.mutants` shows for every rule in its table that one does.
"""
