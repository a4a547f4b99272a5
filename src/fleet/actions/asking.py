"""A live agent asks a person through a tool, and waits. The question outlives whoever waits for its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.errors import BadInput, IllegalMove
from fleet.core.run import BY_TOOL, Question
from fleet.core.task import Caller
from fleet.core.unique import new_uuid
from fleet.engine.qa import LONGEST_QUESTION

if TYPE_CHECKING:
    from fleet.assembly import Fleet


def ask(fleet: Fleet, text: str, *, caller: Caller | None) -> Question:
    """Put a question to a person, or find the one that this task asked before with the same words, answered or not.

    Raises BadInput, IllegalMove for whoever is no live run.
    """
    if caller is None or caller == Caller.over():
        raise IllegalMove(
            "only the agent of a task that runs can ask a person this way", hint="ask the person that you talk to."
        )
    text = _checked(text)
    with fleet.queue.atomic():
        same = [each for each in fleet.history.questions(task_id=caller.task_id) if each.text.strip() == text]
        if same:
            return same[-1]
        made = Question(
            id=f"q-{new_uuid()[:8]}",
            task_id=caller.task_id,
            run_id=caller.run_id,
            asked_at=fleet.queue.now(),
            text=text,
            source=BY_TOOL,
        )
        fleet.history.ask(made)
        return made


def _checked(text: str) -> str:
    text = text.strip()
    if not text:
        raise BadInput("the question is empty", hint="say what you need to know.")
    if len(text) > LONGEST_QUESTION:
        raise BadInput(f"the question has {len(text)} characters; {LONGEST_QUESTION} are the most", hint="shorten it.")
    if "\0" in text:
        raise BadInput("the question has a NUL in it", hint="take it out.")
    return text
