"""Programs and rights that a test needs: if one is missing, the test is skipped by name; in CI it fails."""

import os

import pytest

#: Names of things that this process could not exercise; pytest's summary shows each too.
NOT_EXERCISED: list[str] = []


def require(condition: object, what: str) -> None:
    """Return if the condition holds; otherwise skip the test and record what was not exercised. Fails in CI."""
    if condition:
        return
    NOT_EXERCISED.append(what)
    if os.environ.get("CI") == "true":
        pytest.fail(f"not exercised: {what}", pytrace=False)
    pytest.skip(f"not exercised: {what}")
