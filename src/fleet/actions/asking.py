"""A live agent asks a person through a tool, and waits. The question outlives whoever waits for its answer.

It does not outlive the work that it is about: what is cancelled asks nothing any more.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from fleet.actions.runs import task_home
from fleet.core.errors import AlreadyAnswered, BadInput, IllegalMove
from fleet.core.run import BY_TOOL, Question
from fleet.core.task import Caller
from fleet.core.unique import new_uuid
from fleet.engine.folder import TaskFolder
from fleet.engine.qa import LONGEST_QUESTION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleet.assembly import Fleet

#: Who withdraws what was asked about work that somebody cancelled.
BY = "fleet"


def ask(fleet: Fleet, text: str, *, caller: Caller | None) -> Question:
    """Put a question to a person, or find the one that this task asked before with the same words, answered or not.

    What was withdrawn is asked anew, but not by the run that it was withdrawn from.

    Raises BadInput, IllegalMove for whoever is no live run.
    """
    if caller is None or not caller.is_live:
        raise IllegalMove(
            "only the agent of a task that runs can ask a person this way", hint="ask the person that you talk to."
        )
    text = _checked(text)
    with fleet.store.atomic():
        asked = fleet.store.questions.find(task_id=caller.task_id)
        counting = [each for each in asked if not each.is_withdrawn or each.run_id == caller.run_id]
        if same := [each for each in counting if each.text.strip() == text]:
            return same[-1]
        made = Question(
            id=f"q-{new_uuid()[:8]}",
            task_id=caller.task_id,
            run_id=caller.run_id,
            asked_at=fleet.store.now(),
            text=text,
            source=BY_TOOL,
        )
        fleet.store.questions.ask(made)
        return made


def withdraw(fleet: Fleet, task_ids: Iterable[str]) -> None:
    """Take back whatever these tasks still ask: they are cancelled. That is no answer, and nothing is opened by it."""
    for task_id in task_ids:
        for asked in fleet.store.questions.find(task_id=task_id, unanswered=True):
            try:
                fleet.store.questions.answer(asked.id, None, by=BY)
            except AlreadyAnswered:  # a person was quicker
                continue
            folder = TaskFolder(task_home(fleet, task_id), task_id, now=fleet.store.now)
            with contextlib.suppress(OSError):  # the record counts; the file is for whoever reads along
                folder.withdraw_question(asked.text, fleet.store.now())


def _checked(text: str) -> str:
    text = text.strip()
    if not text:
        raise BadInput("the question is empty", hint="say what you need to know.")
    if len(text) > LONGEST_QUESTION:
        raise BadInput(f"the question has {len(text)} characters; {LONGEST_QUESTION} are the most", hint="shorten it.")
    if "\0" in text:
        raise BadInput("the question has a NUL in it", hint="take it out.")
    return text
