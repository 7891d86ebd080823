"""Not collected by itself: a test that always fails, for the tool that must not mistake it for one that catches something."""


def test_that_always_fails() -> None:
    assert False, "on purpose"  # noqa: B011, PT015 - what it is for
