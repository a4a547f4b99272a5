"""Q&A.md: an agent's questions and the users' answers. Both sides edit the file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fleet.core.record import Record

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

MOST_QUESTIONS = 200
LONGEST_QUESTION = 16 * 1024

_HEADING = re.compile(r"#{1,6}[ \t]{0,4}([QqAa])[ \t]{0,4}\d{0,4}[ \t]{0,4}:(.*)")
_WITHDRAWN = re.compile(r"> withdrawn \d{4}-\d\d-\d\d \d\d:\d\d: ")
_DATE = re.compile(r"\s*\d{4}-\d\d-\d\d[ T]?[\d:]{0,8}\s*")


class QuestionBlock(Record):
    """A `## Q:` block and the answer below it."""

    text: str
    answer: str = ""
    is_withdrawn: bool = False  # a note marks the question as withdrawn; it may be asked again and answered
    end: int  # where its answer belongs, in characters

    @property
    def is_open(self) -> bool:
        """Return True if the question has no answer. An empty `## A:` does not count as an answer."""
        return not self.answer


def questions(text: str) -> list[QuestionBlock]:
    """Return the questions in order, each with the answer before the next question.

    A withdrawn question that is asked again further down appears only there.
    """
    asked = blocks(text)
    below = {key_of(each.text): place for place, each in enumerate(asked)}
    return [each for place, each in enumerate(asked) if not each.is_withdrawn or below[key_of(each.text)] == place]


def split_open(text: str, before: int) -> tuple[list[str], list[str]]:
    """Return the open questions of a run that began with `before` blocks: those it added, and those that it found.

    An answer settles every earlier block with the same text. A question asked again after an answer is open.
    """
    asked = blocks(text)
    added = _open(asked[before:])
    answered = {key_of(each.text) for each in asked[:before] if not each.is_open}
    found = _open(asked[:before])
    return list(added.values()), [text for key, text in found.items() if key not in answered and key not in added]


def find_answer(asked: Sequence[QuestionBlock], question: str) -> str:
    """Return the last answer to this question among these blocks. Return "" if none exists."""
    answers = (each.answer for each in reversed(asked) if key_of(each.text) == key_of(question))
    return next((answer for answer in answers if answer), "")


def _open(asked: Sequence[QuestionBlock]) -> dict[str, str]:
    settled = {key_of(each.text) for each in asked if not each.is_open}
    return {key_of(each.text): each.text for each in asked if key_of(each.text) not in settled}


def blocks(text: str) -> list[QuestionBlock]:
    """Return every `## Q:` block in order, including withdrawn questions."""
    found: list[tuple[list[str], list[str], int]] = []
    withdrawn: set[int] = set()
    position, part = 0, None
    for line in text.splitlines(keepends=True):
        position += len(line)
        heading = _HEADING.match(line)
        if heading and heading[1] in "Qq":
            if len(found) == MOST_QUESTIONS:
                break
            found.append(([heading[2].strip()], [], position))
            part = found[-1][0]
        elif heading and found:
            part = found[-1][1]
            # The heading of an answer holds its time. Some users write the answer into the heading.
            part.append("" if _DATE.fullmatch(heading[2]) else heading[2].strip())
        elif found and _WITHDRAWN.match(line):
            withdrawn.add(len(found) - 1)
        elif part is not None:
            part.append(line.rstrip())
        if found:
            found[-1] = (*found[-1][:2], position)
    return [
        QuestionBlock(text=_joined(asked), answer=_joined(answer), is_withdrawn=place in withdrawn, end=end)
        for place, (asked, answer, end) in enumerate(found)
    ]


def with_answer(text: str, question: str, answer: str, at: datetime) -> tuple[str, bool]:
    """Return the file with an answer below its question, and True if the answer is new. The first answer wins.

    If the question is not in the file because it was asked in another way, append the question and its answer.
    """
    asked = questions(text)
    same = [each for each in asked if key_of(each.text) == key_of(question)]
    open_ones = [each for each in same if each.is_open]
    if same and not open_ones:
        return text, False
    if not open_ones:
        heading = f"## Q: {key_of(question)}\n"
        return _block(text, heading + _answer_block(answer, at)), True
    return _inserted(text, open_ones[-1].end, _answer_block(answer, at)), True


def with_withdrawal(text: str, question: str, at: datetime) -> str:
    """Return the file with a note below this question, if it is open, that the question was withdrawn."""
    same = [each for each in questions(text) if each.is_open and key_of(each.text) == key_of(question)]
    if not same:
        return text
    note = f"> withdrawn {at:%Y-%m-%d %H:%M}: its work was cancelled before an answer\n"
    return _inserted(text, same[-1].end, note)


def _answer_block(answer: str, at: datetime) -> str:
    # Escape lines of the answer that look like a heading or a withdrawal note.
    ours = (_HEADING, _WITHDRAWN)
    lines = ["\\" + line if any(look.match(line) for look in ours) else line for line in answer.strip().splitlines()]
    return f"## A: {at:%Y-%m-%d %H:%M}\n\n" + "\n".join(lines) + "\n"


def _inserted(text: str, place: int, block: str) -> str:
    rest = text[place:]
    return _block(text[:place], block) + ("\n" if rest else "") + rest


def _block(before: str, block: str) -> str:
    if before and not before.endswith("\n"):
        before += "\n"
    return before + ("\n" if before and not before.endswith("\n\n") else "") + block


def _joined(lines: list[str]) -> str:
    return "\n".join(lines).strip()[:LONGEST_QUESTION]


def key_of(text: str) -> str:
    """Return the identity of a question: the first line, with normalized spaces."""
    return " ".join(text.strip().partition("\n")[0].split())
