"""Last words that ask the user a question."""

import pytest

from fleet.core.outcome import LONGEST_QUESTION, question_in


@pytest.mark.parametrize(
    "text",
    [
        "Which database?",
        "I looked. Should I go on? I will wait.",
        "**Shall I?**",
        "Which one?\n\n- SQLite\n- PostgreSQL",
        "Please let me know which of them you want.",
        "I am waiting for your decision.",
        "x" * 10_000 + "\n\nShall I?",
    ],
)
def test_question_in_returns_the_end_when_it_asks(text: str) -> None:
    assert question_in(text) == text.strip()[-LONGEST_QUESTION:]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Done.",
        "Done. Anything else?",
        "Done. Let me know if you have any questions.",
        "Why?\n\nBecause of the sign. It is mended.",
        "See https://example.invalid/?page=1&b=2 for more.",
        "```\na ? b : c?\n```",
        "Done:\n\n- mended add\n- ran the tests",
    ],
)
def test_question_in_returns_nothing_when_nothing_is_asked(text: str) -> None:
    assert question_in(text) == ""
