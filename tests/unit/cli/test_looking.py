"""Following a screen: the lines that are new since the last look."""

import pytest

from fleet.cli.views import new_lines


@pytest.mark.parametrize(
    ("before", "now", "new"),
    [
        ("", "a b", "a b"),
        ("a b", "a b", ""),
        ("a b", "a b c", "c"),
        ("a b c", "b c d e", "d e"),
        ("a a", "a a a", "a"),
        ("a b >", "a b c >", "c"),  # a prompt stays at the bottom
        ("a b", "x y", "x y"),  # the screen was redrawn
        ("a b", "", ""),
    ],
)
def test_only_new_rows_are_returned(before: str, now: str, new: str) -> None:
    assert new_lines(before.split(), now.split()) == new.split()
