"""The environment of a test that configures foldline itself."""

import os

import pytest


def without_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every setting of foldline's out of the environment, but what says how tests are run."""
    for name in [name for name in os.environ if name.startswith("FOLDLINE_") and "_TEST_" not in name]:
        monkeypatch.delenv(name)
