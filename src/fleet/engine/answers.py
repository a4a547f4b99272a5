"""Answers that people write into Q&A.md: put on record like those given by `fleet answer`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.errors import TaskNotFound
from fleet.core.flow import was_stopped
from fleet.core.task import Status
from fleet.engine import qa
from fleet.wake import wake

if TYPE_CHECKING:
    from fleet.core.run import Question
    from fleet.core.task import Task
    from fleet.engine.folder import TaskFolder
    from fleet.store.base import History, Queue

BY_HAND = "Q&A.md"
LONGEST_ANSWER = 64 * 1024
#: The note of a run: how many questions Q&A.md had when the run began.
ASKED_BEFORE = "asked_before"


def take_answers(queue: Queue, history: History, folder: TaskFolder, *, is_ours: bool = False) -> None:
    """Put the answers in the Q&A.md of a task on record, and open the task if it waits for no other.

    Nothing is taken while a run of the task is on record, whose agent may write there too; `is_ours` for a supervisor
    that has claimed the task and not started its agent yet.
    """
    with queue.atomic():
        waiting = history.questions(task_id=folder.task_id, unanswered=True)
        try:
            task = queue.get(folder.task_id)
        except TaskNotFound:
            return
        if not waiting or (task.is_supervised and not is_ours):
            return
        blocks = folder.questions()
        answers = {each.id: qa.find_answer(blocks[_before(history, each) :], each.text) for each in waiting}
        taken = [each for each in waiting if answers[each.id]]
        for each in taken:
            history.answer(each.id, answers[each.id][:LONGEST_ANSWER], by=BY_HAND)
        if taken and not was_stopped(task):
            open_answered(queue, history, task, taken[-1].text)
    if taken:
        wake(folder.home)


def answer_same(history: History, asked: Question, text: str, *, by: str) -> None:
    """Give the same answer to whatever else a task asks with the same words."""
    for each in history.questions(task_id=asked.task_id, unanswered=True):
        if qa.key_of(each.text) == qa.key_of(asked.text):
            history.answer(each.id, text, by=by)


def open_answered(queue: Queue, history: History, task: Task, question: str) -> Task:
    """Open a blocked task of which every question is answered. Return the task as it is then."""
    if task.status != Status.BLOCKED or history.questions(task_id=task.id, unanswered=True):
        return task
    line = qa.key_of(question)
    why = f"answered: {line if len(line) <= 80 else line[:79] + '…'}"
    task = task.reopened(queue.now()).replace(assignee="", reason=why)
    queue.save(task)
    return task


def _before(history: History, asked: Question) -> int:
    """Return how many blocks Q&A.md had before this question: answers among those are to an earlier one."""
    run = history.run(asked.run_id) if asked.run_id else None
    before = run.notes.get(ASKED_BEFORE, 0) if run is not None else 0
    return before if isinstance(before, int) else 0
