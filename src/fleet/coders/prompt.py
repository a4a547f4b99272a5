"""The prompt that every coder gets: the task, the working rules and, for a later run, why it runs again."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fleet.core.quoting import fence_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.core.task import Task
    from fleet.core.verification import Verification
    from fleet.home import Home

TEMPLATES = Path(__file__).parent.parent / "templates"
LONGEST_TEMPLATE = 1024 * 1024

#: Names that a template may use in braces. Other braces stay as they are.
FIELDS = ("task_id", "task_title", "task_description", "task_dir", "artifacts_dir", "invocation_line")
_FIELD = re.compile(r"\{(" + "|".join(FIELDS) + r")\}")


class Spoken(NamedTuple):
    """The text that an agent in a terminal gets at the start of a run."""

    prompt: str
    protocol: str  # the working rules, passed separately if the coder can


def prompt_for(
    home: Home,
    task: Task,
    *,
    run_number: int = 1,
    resumed: bool = False,  # the resumed session already knows the task and the working rules
    answers: Sequence[tuple[str, str]] = (),  # pairs of question and answer
    messages: Sequence[str] = (),
    reason: str = "",
) -> str:
    """Return the prompt at the start of a run."""
    values = _values(home, task)
    names = () if resumed else ("task.md", "protocol.md")
    parts = [_filled(_template(home, name), values) for name in names]
    parts += [_again(run_number, reason), _answered(answers), _said(messages), _go_on(task) if resumed else ""]
    return _joined(parts) + "\n"


def spoken_for(
    home: Home,
    task: Task,
    *,
    resumed: bool = False,
    answers: Sequence[tuple[str, str]] = (),
    messages: Sequence[str] = (),
) -> Spoken:
    """Return the text for an agent in a terminal.

    Only the user's words are on the screen, because a person reads it.
    """
    own = [] if resumed else [_description(task)]
    template = _template(home, "terminal.md")
    protocol = _filled(template, _values(home, task)).strip() + "\n"
    prompt = [*own, _answered(answers), _said(messages)]
    if {"task_title", "task_description"} & set(_FIELD.findall(template)) and any(prompt):
        # Some coders take the protocol as an argument, which other users can read.
        return Spoken(_joined([*prompt, protocol]), "")
    return Spoken(_joined(prompt), protocol)


def not_passed(made: Verification) -> str:
    """Return why a task runs again whose work failed its verify command, with the command's output."""
    said = f"fleet ran `{made.command}` in a clean checkout of your branch's commits, and it {made.in_words}."
    told = fence_text(made.tail, "the end of its output") if made.tail.strip() else "It printed nothing."
    return f"{said}\n\n{told}\n\nFind out why, and fix the work, not the check."


def not_so(shown: str) -> str:
    """Return why a task runs again whose agent made false claims."""
    told = fence_text(shown, "the false claims")
    return (
        "the previous run reported success, and fleet checked its claims.\n\n"
        f"{told}\n\nDo not trust its notes: read the files themselves, do the work, and claim in "
        "result.json only what you did."
    )


def _joined(parts: Sequence[str]) -> str:
    return "\n\n---\n\n".join(part.strip() for part in parts if part.strip()).replace("\0", "")


def _values(home: Home, task: Task) -> dict[str, str]:
    folder = home.task(task.id)
    return {
        "task_id": task.id,
        "task_title": task.title,
        "task_description": _description(task),
        "task_dir": folder,
        "artifacts_dir": os.path.join(folder, "artifacts"),  # noqa: PTH118 - homes are plain strings
        "invocation_line": f"Invocation directory: {task.cwd}" if task.cwd else "",
    }


def _description(task: Task) -> str:
    more = (("Design", task.design), ("Acceptance criteria", task.acceptance), ("Notes", task.notes))
    parts = [task.description.strip(), *(f"## {title}\n{text.strip()}" for title, text in more if text.strip())]
    return "\n\n".join(part for part in parts if part)


def _template(home: Home, name: str) -> str:
    """Return the user's template of this name, else fleet's."""
    own = home.template(name)
    return _read_template(own) if os.path.isfile(own) else _own_template(name)  # noqa: PTH113


@functools.cache
def _own_template(name: str) -> str:
    return _read_template(str(TEMPLATES / name))


def _read_template(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        return file.read(LONGEST_TEMPLATE)


def _filled(template: str, values: dict[str, str]) -> str:
    # One pass for all fields: braces in a task's text are never fields.
    return _FIELD.sub(lambda match: values[match[1]], template)


def _again(run_number: int, reason: str) -> str:
    if run_number <= 1:
        return ""
    why = reason.strip() or "the previous run ended before the task was finished"
    return (
        f"# This is run {run_number} of this task\n\nIt runs again because: {why}\n\n"
        "Earlier runs may have changed files. Read the artifacts and the current state before you change anything."
    )


def _go_on(task: Task) -> str:
    return (
        f"Continue task {task.id} where this session stopped, by the same rules: keep your artifacts current, write "
        "result.json, and close the task when it is done."
    )


def _answered(answers: Sequence[tuple[str, str]]) -> str:
    blocks = [f"Question: {question.strip()}\n\nAnswer: {answer.strip()}" for question, answer in answers]
    return "# Answers to your questions\n\n" + "\n\n".join(blocks) if blocks else ""


def _said(messages: Sequence[str]) -> str:
    given = [message.strip() for message in messages if message.strip()]
    return "# Messages to you since the last run\n\n" + "\n\n".join(given) if given else ""
