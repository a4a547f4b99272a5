"""Names for prompts and conditions: `{task_prompt}`, `{stage_N_summary}`, `{stages.review.summary}`, `{item}`."""

from __future__ import annotations

import re
from typing import NamedTuple

#: The fields of a stage, and those that are lists.
FIELDS = ("summary", "files", "next_steps", "status", "result", "finding", "branch", "commit")
LISTS = ("next_steps", "files")
TASK_PROMPT, ITEM = "task_prompt", "item"
#: The stage to which a loop's `until` refers.
THIS = "this"

#: A name in quotes, which may contain blanks and dots: stages["a b"].
QUOTED = r"stages\[(?:\"[^\"{}\n]{1,200}\"|'[^'{}\n]{1,200}')\]"
#: A stage's name cannot contain braces, so the last dot precedes the field.
VARIABLE = re.compile(
    r"\{(?:(task_prompt|item)|(stage_[0-9]{1,6})_([a-z_]{1,20})"
    rf"|(stages\.[^{{}}\n]{{1,200}}|{QUOTED})\.([a-z_]{{1,20}}))\}}"
)


class Reference(NamedTuple):
    """A field of a stage."""

    head: str  # stage_0, stages.review or this
    field: str

    @property
    def number(self) -> int | None:
        """Return the stage's index. Return None if the reference uses a name."""
        return int(self.head[6:]) if self.head.startswith("stage_") else None

    @property
    def name(self) -> str:
        """Return the stage's name. Empty if the reference uses a number."""
        return self.head.removeprefix("stages.") if self.number is None else ""

    def __str__(self) -> str:
        return f"{self.head}{'.' if self.number is None else '_'}{self.field}"


def reference_of(match: re.Match[str]) -> Reference | None:
    """Return the reference in a template's variable. Return None for variables without a stage."""
    _, numbered, field, named, own_field = match.groups()
    if numbered or named:
        return Reference(numbered or head_of(named), field or own_field)
    return None


def bare_reference(text: str) -> Reference | None:
    """Parse a reference without braces, such as `stages.plan.next_steps`. Return None if it is not a reference."""
    match = VARIABLE.fullmatch(f"{{{text}}}")
    return reference_of(match) if match else None


def head_of(written: str) -> str:
    """Return the normalized head of a reference: stages["review"] becomes stages.review."""
    return f"stages.{written[8:-2]}" if written.startswith("stages[") else written


def in_template(text: str) -> dict[Reference, str]:
    """Return every reference to a stage in a template, even to unknown fields, with its first spelling."""
    found: dict[Reference, str] = {}
    for match in VARIABLE.finditer(text):
        if reference := reference_of(match):
            found.setdefault(reference, match[0])
    return found
