"""Prompts of stages: the template with its variables replaced. Text from agents is fenced."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from fleet.core.quoting import fence_text
from fleet.workflows import results as told
from fleet.workflows.references import FIELDS, ITEM, TASK_PROMPT, VARIABLE, Reference, reference_of

if TYPE_CHECKING:
    from fleet.core.workflow import Stage
    from fleet.workflows.results import Results

#: fleet's own words and branch names. They are not fenced if they match these patterns.
_PLAIN = {
    "status": re.compile(r"[a-z_]{1,40}"),
    "finding": re.compile(r"[a-z_]{1,40}"),
    "branch": re.compile(r"[\w./@#+=-]{1,250}"),
    "commit": re.compile(r"[0-9a-f]{4,64}"),
}


def prompt_of(stage: Stage, *, task_prompt: str, results: Results) -> str:
    """Return the prompt of a stage. Replacement is one pass, so replaced text is never searched for variables."""
    template, parts, end = stage.prompt, [""], 0
    for match in VARIABLE.finditer(template):
        value = _value(stage, match, task_prompt, results)
        if value is None:
            continue
        parts.append(template[end : match.start()])
        end = match.end()
        # A fence needs separate lines.
        before = "\n" if value.is_fenced and template[match.start() - 1 : match.start()] not in ("", "\n") else ""
        after = "\n" if value.is_fenced and template[end : end + 1] not in ("", "\n") else ""
        parts.append(f"{before}{value.text}{after}")
    return "".join([*parts, template[end:]])


class _Value(NamedTuple):
    text: str
    is_fenced: bool = False


def _value(stage: Stage, match: re.Match[str], task_prompt: str, results: Results) -> _Value | None:
    """Return the value of a variable. Return None if it is only text in braces."""
    if match[1] == TASK_PROMPT:
        return _Value(task_prompt)
    if match[1] == ITEM:
        return _item(stage, results)
    reference = reference_of(match)
    if reference is None or reference.field not in FIELDS or reference.head not in stage.reads:
        return None
    return _said(stage, reference, results)


def _item(stage: Stage, results: Results) -> _Value | None:
    """Return the item of a stage's copy: plain text of the file, or fenced text that an agent wrote."""
    if not stage.items_of:
        return _Value(stage.item) if stage.item is not None else None
    found = told.own_items(stage, results)
    fences = [fence_text(text, f"item {stage.items_from + at} of {stage.items_of}") for at, text in enumerate(found)]
    return _Value("\n".join(fences), is_fenced=bool(fences))


def _said(stage: Stage, reference: Reference, results: Results) -> _Value:
    found = told.bodies(stage.reads[reference.head], results)
    texts = [(name, told.text_of(body, reference.field)) for name, body in found]
    plain = _PLAIN.get(reference.field)
    if plain and all(plain.fullmatch(text) for _, text in texts if text):
        if len(texts) == 1:
            return _Value(texts[0][1])
        return _Value(", ".join(f"{name}: {text}" for name, text in texts if text))
    fences = [fence_text(text, f"{reference.field} of stage {name}") for name, text in texts if text]
    return _Value("\n".join(fences), is_fenced=bool(fences))
