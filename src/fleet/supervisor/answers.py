"""Answers that users write into Q&A.md, recorded like answers given with `fleet answer`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.errors import TaskNotFound
from fleet.core.filter import Filter
from fleet.core.task import Status
from fleet.core.workflow import was_stopped
from fleet.supervisor import questions_file
from fleet.supervisor.task_folder import TaskFolder
from fleet.wake import wake

if TYPE_CHECKING:
    from fleet.core.redaction import Redactor
    from fleet.core.run import Question
    from fleet.core.task import Task
    from fleet.home import Home
    from fleet.store.base import Store


BY_HAND = "Q&A.md"
LONGEST_ANSWER = 64 * 1024
#: Name of the note in a run: how many questions Q&A.md had when the run began.
ASKED_BEFORE = "asked_before"


def take_answers(store: Store, folder: TaskFolder, *, is_ours: bool = False) -> None:
    """Record the answers in a task's Q&A.md, and reopen the task if it waits for no other answer.

    While a run of the task is recorded, nothing is read, because its agent may write to the file. Pass `is_ours` from a
    supervisor that has claimed the task and not yet started its agent.
    """
    with store.atomic():
        waiting = store.questions.find(task_id=folder.task_id, unanswered=True)
        try:
            task = store.tasks.get(folder.task_id)
        except TaskNotFound:
            return
        if not waiting or (task.is_supervised and not is_ours):
            return
        blocks = folder.questions()
        answers = {each.id: questions_file.find_answer(blocks[_before(store, each) :], each.text) for each in waiting}
        taken = [each for each in waiting if answers[each.id]]
        for each in taken:
            store.questions.answer(each.id, answers[each.id][:LONGEST_ANSWER], by=BY_HAND)
        if taken and not was_stopped(task):
            open_answered(store, task, taken[-1].text)
    if taken:
        wake(folder.home)


def answer_same(store: Store, asked: Question, text: str, *, by: str) -> None:
    """Give the same answer to all unanswered questions of a task with the same text."""
    for each in store.questions.find(task_id=asked.task_id, unanswered=True):
        if questions_file.key_of(each.text) == questions_file.key_of(asked.text):
            store.questions.answer(each.id, text, by=by)


def open_answered(store: Store, task: Task, question: str) -> Task:
    """Reopen a blocked task if all its questions are answered. Return the task as it is then."""
    if task.status != Status.BLOCKED or store.questions.find(task_id=task.id, unanswered=True):
        return task
    line = questions_file.key_of(question)
    why = f"answered: {line if len(line) <= 80 else line[:79] + '…'}"
    task = task.reopened(store.now()).replace(assignee="", reason=why)
    store.tasks.save(task)
    return task


def _before(store: Store, asked: Question) -> int:
    """Return how many blocks Q&A.md had before this question. Answers in those blocks belong to earlier questions."""
    run = store.runs.get(asked.run_id) if asked.run_id else None
    before = run.notes.get(ASKED_BEFORE, 0) if run is not None else 0
    return before if isinstance(before, int) else 0


Stamp = tuple[int, int, int]


class Pages:
    """The state of each file at the last call, and whether it was read since it changed."""

    def __init__(self, store: Store, home: Home, redactor: Redactor) -> None:
        self._store, self._home, self._redactor = store, home, redactor
        self._seen: dict[str, tuple[Stamp, bool]] = {}

    def take_answers(self) -> None:
        """Take the answers from every file that changed before the last call.

        A later change means that a user may still be typing.
        """
        store, seen = self._store, self._seen
        self._seen = {}
        asking = tuple({each.task_id for each in store.questions.find(unanswered=True)})
        if not asking:
            return
        for task in store.tasks.find(Filter(statuses=(Status.BLOCKED,), ids=asking), sort="id"):
            folder = TaskFolder(self._home, task.id, redactor=self._redactor, now=store.now)
            stamp = None if task.is_supervised else folder.questions_stamp()
            if stamp is None:
                continue
            before, was_read = seen.get(task.id, (None, False))
            if stamp == before and not was_read:
                take_answers(store, folder)
            self._seen[task.id] = (stamp, stamp == before)
