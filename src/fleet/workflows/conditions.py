"""Conditions on earlier results: a small separate language, never evaluated as Python.

    stages.review.status == "completed" and not (stages.review.summary contains "lgtm" or stage_0_next_steps)

`==` and `!=` compare whole texts. `contains` searches one text in another, ignoring case. A field alone is true if it
is not empty.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from fleet.workflows import results as told
from fleet.workflows.references import FIELDS, QUOTED, THIS, Reference, head_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fleet.core.workflow import Stage
    from fleet.workflows.results import Results

LONGEST = 4096
DEEPEST = 50
#: Value of a field if the items of a fan differ.
MIXED = "mixed"
#: Abbreviations for the condition that ends a loop.
UNTIL = {
    "verify": 'finding == "verified"',
    "content": '(status == "completed" or status == "completed_no_changes") and not next_steps',
}

_FIELD = "|".join(FIELDS)
_TOKEN = re.compile(
    rf"\s*(?:(?P<text>\"[^\"]*\"|'[^']*')|(?P<op>==|!=|\(|\))"
    rf"|(?P<ref>(?:stages\.[^\s()\"'=!{{}}]+|{QUOTED})\.(?:{_FIELD})|stage_[0-9]{{1,6}}_(?:{_FIELD}))(?![\w.-])"
    r"|(?P<word>[A-Za-z_][\w.-]*)|(?P<end>\Z)|(?P<other>.))",
    re.DOTALL,
)


class BadCondition(Exception):
    """The text is not a valid condition."""


class Text(NamedTuple):
    """A text in quotes."""

    text: str


class Comparison(NamedTuple):
    """Two operands with `==`, `!=` or `contains` between them, or a single operand."""

    left: Text | Reference
    operator: str = ""
    right: Text | Reference = Text("")


class JoinedCondition(NamedTuple):
    """Conditions joined by `and` or `or`, or a single condition after `not`."""

    word: str
    parts: tuple[Condition, ...]


Condition = Comparison | JoinedCondition


def until_of(text: str) -> str:
    """Return the condition that ends a loop, with abbreviations expanded."""
    return UNTIL.get(text, text)


def parse(text: str) -> Condition:
    """Parse a condition. Raises BadCondition with the error and its position."""
    if len(text) > LONGEST:
        raise BadCondition(f"longer than {LONGEST} characters")
    return _Parser(text).whole()


def references(condition: Condition) -> Iterator[tuple[Reference, str | None]]:
    """Yield every reference, with the text that `==` or `!=` compares it to, or None."""
    if isinstance(condition, JoinedCondition):
        for part in condition.parts:
            yield from references(part)
        return
    pair = (condition.left, condition.right)
    for own, other in (pair, pair[::-1]):
        if isinstance(own, Reference):
            is_compared = condition.operator in ("==", "!=") and isinstance(other, Text)
            yield own, other.text if is_compared and isinstance(other, Text) else None


def holds(condition: Condition, look_up: Callable[[Reference], str]) -> bool:
    if isinstance(condition, JoinedCondition):
        parts = (holds(part, look_up) for part in condition.parts)
        if condition.word == "not":
            return not any(parts)
        return all(parts) if condition.word == "and" else any(parts)
    left, right = (_said(each, look_up) for each in (condition.left, condition.right))
    match condition.operator:
        case "==":
            return left == right
        case "!=":
            return left != right
        case "contains":
            return right.casefold() in left.casefold()
        case _:
            return bool(left)


def is_to_run(stage: Stage, results: Results) -> tuple[bool, str]:
    """Return whether a stage runs, now that everything it needs has finished, and the reason if not. Raises NoList."""
    if stage.unless:
        before = stage.reads[THIS][0][0]
        if results.get(before, {}).get("status") == told.SKIPPED:
            return False, "the loop ended in an earlier round"
        if holds(parse(until_of(stage.unless)), _looking(stage, results)):
            return False, f"the loop ended with {before}: {stage.unless}"
    if stage.when and not holds(parse(stage.when), _looking(stage, results)):
        return False, f"its condition does not hold: {stage.when}"
    if not stage.when and stage.after and all(told.was_skipped(chain, results) for chain in stage.after):
        return False, "all its dependencies were skipped"
    if stage.items_of and not told.own_items(stage, results):
        return False, told.no_item(stage)
    return True, ""


def _looking(stage: Stage, results: Results) -> Callable[[Reference], str]:
    def look_up(reference: Reference) -> str:
        found = told.bodies(stage.reads.get(reference.head, ()), results)
        texts = [told.text_of(body, reference.field) for _, body in found]
        if reference.field in ("status", "finding", "branch", "commit"):
            return (texts[0] if len(set(texts)) == 1 else MIXED) if texts else ""
        return "\n".join(text for text in texts if text)

    return look_up


def _said(operand: Text | Reference, look_up: Callable[[Reference], str]) -> str:
    return operand.text if isinstance(operand, Text) else look_up(operand)


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0
        self._depth = 0

    def whole(self) -> Condition:
        found = self._either()
        if self._kind != "end":
            raise self._unexpected("`and`, `or` or the end")
        return found

    @property
    def _kind(self) -> str:
        return self._tokens[self._at][0]

    @property
    def _word(self) -> str:
        kind, word, _ = self._tokens[self._at]
        return word if kind in ("op", "word") else ""

    def _either(self) -> Condition:
        return self._joined("or", lambda: self._joined("and", self._one))

    def _joined(self, word: str, part: Callable[[], Condition]) -> Condition:
        parts = [part()]
        while self._word == word:
            self._at += 1
            parts.append(part())
        return JoinedCondition(word, tuple(parts)) if len(parts) > 1 else parts[0]

    def _one(self) -> Condition:
        self._depth += 1
        if self._depth > DEEPEST:
            raise BadCondition(f"nested more than {DEEPEST} deep")
        if self._word == "not":
            self._at += 1
            found: Condition = JoinedCondition("not", (self._one(),))
        elif self._word == "(":
            self._at += 1
            found = self._either()
            if self._word != ")":
                raise self._unexpected("a closing parenthesis")
            self._at += 1
        else:
            found = self._comparison()
        self._depth -= 1
        return found

    def _comparison(self) -> Comparison:
        left = self._operand()
        if self._word not in ("==", "!=", "contains"):
            if isinstance(left, Text):
                raise self._unexpected("==, != or contains after a text")
            return Comparison(left)
        operator = self._word
        self._at += 1
        return Comparison(left, operator, self._operand())

    def _operand(self) -> Text | Reference:
        kind, word, _ = self._tokens[self._at]
        if kind == "text":
            found: Text | Reference = Text(word[1:-1])
        elif kind == "ref":
            head, field = _split(word)
            found = Reference(head, field)
        elif kind == "word" and word in FIELDS:
            found = Reference(THIS, word)
        else:
            raise self._unexpected("a text in quotes, or a field like stages.NAME.status")
        self._at += 1
        return found

    def _unexpected(self, wanted: str) -> BadCondition:
        kind, word, at = self._tokens[self._at]
        found = "the end" if kind == "end" else repr(word)
        return BadCondition(f"{wanted} is expected at character {at + 1}, not {found}")


def _split(word: str) -> tuple[str, str]:
    """Split a reference into head and field, at the last position where a field begins."""
    separator = "_" if word.startswith("stage_") else "."
    field = next(each for each in FIELDS if word.endswith(f"{separator}{each}"))
    return head_of(word.removesuffix(f"{separator}{field}")), field


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "other"
        yield kind, match[kind], match.start(kind)
        if kind == "end":
            return
