"""A fleet under attack: every role killed and frozen, the server killed, connections cut, receivers that fail; and an exact account of it.

`python -m scripts.chaos --turns N --seed S [--json]` runs it; `scripts.chaos_check` judges what its logs say and knows nothing of us.
"""
