"""What a prompt or a condition may name: `{task_prompt}`, `{stage_N_summary}`, `{stages.review.summary}`, `{item}`."""

from __future__ import annotations

import re
from typing import NamedTuple

#: What can be asked of a stage, and what of it is a list.
FIELDS = ("summary", "files", "next_steps", "status", "result", "finding", "branch", "commit")
LISTS = ("next_steps", "files")
TASK_PROMPT, ITEM = "task_prompt", "item"
#: The stage that a loop's `until` speaks of.
THIS = "this"

#: A name in quotes, which may have blanks and dots in it: stages["a b"].
QUOTED = r"stages\[(?:\"[^\"{}\n]{1,200}\"|'[^'{}\n]{1,200}')\]"
#: A stage's name cannot have braces, so the last dot is the one before the field.
VARIABLE = re.compile(
    r"\{(?:(task_prompt|item)|(stage_[0-9]{1,6})_([a-z_]{1,20})"
    rf"|(stages\.[^{{}}\n]{{1,200}}|{QUOTED})\.([a-z_]{{1,20}}))\}}"
)


class Reference(NamedTuple):
    """One thing asked of one stage."""

    head: str  # stage_0, stages.review or this
    field: str

    @property
    def number(self) -> int | None:
        """The stage's index, where it is named by that."""
        return int(self.head[6:]) if self.head.startswith("stage_") else None

    @property
    def name(self) -> str:
        """The stage's name, where it is named by that."""
        return self.head.removeprefix("stages.") if self.number is None else ""

    def __str__(self) -> str:
        return f"{self.head}{'.' if self.number is None else '_'}{self.field}"


def reference_of(match: re.Match[str]) -> Reference | None:
    """What a variable of a template asks of a stage; None for the variables that are about none."""
    _, numbered, field, named, own_field = match.groups()
    if numbered or named:
        return Reference(numbered or head_of(named), field or own_field)
    return None


def bare_reference(text: str) -> Reference | None:
    """What a reference that stands alone asks of a stage: `stages.plan.next_steps`; None where it is none."""
    match = VARIABLE.fullmatch(f"{{{text}}}")
    return reference_of(match) if match else None


def head_of(written: str) -> str:
    """The first part of a reference, in the one way that fleet writes it: stages["review"] is stages.review."""
    return f"stages.{written[8:-2]}" if written.startswith("stages[") else written


def in_template(text: str) -> dict[Reference, str]:
    """Every reference to a stage in a template, fields that no stage has included, and how the first is written."""
    found: dict[Reference, str] = {}
    for match in VARIABLE.finditer(text):
        if reference := reference_of(match):
            found.setdefault(reference, match[0])
    return found
