"""What a test needs from the machine: missing on a laptop it is skipped by name, in CI it is a failure."""

import os

import pytest

#: What this process could not exercise; pytest's summary names each as well.
NOT_EXERCISED: list[str] = []


def require(condition: object, what: str) -> None:
    """Go on if the condition holds; else leave the test out and say what was not exercised."""
    if condition:
        return
    NOT_EXERCISED.append(what)
    if os.environ.get("CI") == "true":
        pytest.fail(f"not exercised: {what}", pytrace=False)
    pytest.skip(f"not exercised: {what}")
