"""Following a screen: which of its lines are new since it was last looked at."""

import pytest

from fleet.cli.looking import new_lines


@pytest.mark.parametrize(
    ("before", "now", "new"),
    [
        ("", "a b", "a b"),
        ("a b", "a b", ""),
        ("a b", "a b c", "c"),
        ("a b c", "b c d e", "d e"),
        ("a a", "a a a", "a"),
        ("a b >", "a b c >", "c"),  # a prompt stays at the bottom
        ("a b", "x y", "x y"),  # a screen that was drawn anew
        ("a b", "", ""),
    ],
)
def test_only_new_rows_are_returned(before: str, now: str, new: str) -> None:
    assert new_lines(before.split(), now.split()) == new.split()
