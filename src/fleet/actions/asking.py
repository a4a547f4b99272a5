"""Questions that a live agent asks a person through a tool. A question outlives the process that waits for the answer.

A question does not outlive its task: cancelling a task withdraws its questions.
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

#: The name recorded for questions that are withdrawn because their task was cancelled.
BY = "fleet"


def ask(fleet: Fleet, text: str, *, caller: Caller | None) -> Question:
    """Ask a person a question, or return the question that this task already asked with the same text.

    A withdrawn question can be asked again, but not by the run that asked it.

    Raises BadInput. Raises IllegalMove if the caller is not a live run.
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
    """Withdraw the open questions of cancelled tasks. Withdrawing is not an answer and reopens no task."""
    for task_id in task_ids:
        for asked in fleet.store.questions.find(task_id=task_id, unanswered=True):
            try:
                fleet.store.questions.answer(asked.id, None, by=BY)
            except AlreadyAnswered:  # a person answered first
                continue
            folder = TaskFolder(task_home(fleet, task_id), task_id, now=fleet.store.now)
            with contextlib.suppress(OSError):  # the record counts; the file is only a copy for readers
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
