"""Agents' questions and users' answers. The first answer wins. The task reopens after its last open question."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.control.reading import part
from fleet.actions.tasks.rights import refuse_agents
from fleet.actions.tasks.runs import task_home
from fleet.actions.tasks.tasks import find_id
from fleet.core.errors import (
    AlreadyAnswered,
    BadInput,
    FleetError,
    IllegalMove,
    QuestionNotFound,
    TaskNotFound,
    UsageError,
)
from fleet.core.filter import Filter
from fleet.core.ids import new_uuid
from fleet.core.run import BY_TOOL, Question
from fleet.core.task import Caller, Status
from fleet.supervisor.answers import LONGEST_ANSWER, answer_same, open_answered, take_answers
from fleet.supervisor.questions_file import LONGEST_QUESTION
from fleet.supervisor.task_folder import TaskFolder
from fleet.wake import wake

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from fleet.assembly import Fleet
    from fleet.core.task import Task


class TaskQuestion(NamedTuple):
    """A question and its task."""

    question: Question
    task: Task | None
    page: str  # the file in which users may answer

    @property
    def waits(self) -> bool:
        """Return True if the question still needs an answer."""
        if self.question.answered_at is not None or self.task is None:
            return False
        return self.task.status == Status.BLOCKED or self.question.source == BY_TOOL

    def view(self) -> dict[str, Any]:
        asked = self.question
        return {
            "id": asked.id,
            "task": asked.task_id,
            "title": self.task.title if self.task else None,
            "run": asked.run_id,
            "asked_at": asked.asked_at.isoformat(timespec="seconds"),
            "text": asked.text,
            "file": self.page,
            "waits": self.waits,
            "withdrawn": asked.is_withdrawn,
            "answer": asked.answer,
            "answered_at": asked.answered_at.isoformat(timespec="seconds") if asked.answered_at else None,
            "answered_by": asked.answered_by,
        }


class AnsweredQuestion(NamedTuple):
    """The result of an answer."""

    question: Question
    task: Task
    left: int  # number of open questions of the same task


def questions(fleet: Fleet, *, everything: bool = False) -> list[TaskQuestion]:
    """Return the questions that wait for a person, oldest first. With `everything`, return the others too."""
    for task_id in {each.task_id for each in fleet.store.questions.find(unanswered=True)}:
        _take_answers(fleet, task_id)
    found = _with_tasks(fleet, fleet.store.questions.find(unanswered=not everything))
    return found if everything else [each for each in found if each.waits]


def which(fleet: Fleet, name: str) -> TaskQuestion:
    """Return the question with this id, or the open question of the task with this id.

    Raises QuestionNotFound, UsageError if the task asks several, and FleetError if it asks none.
    """
    try:
        return _with_tasks(fleet, [fleet.store.questions.get(name)])[0]
    except QuestionNotFound as error:
        try:
            task_id = find_id(fleet.store, name)
        except TaskNotFound:
            raise error from None
    asked = _with_tasks(fleet, fleet.store.questions.find(task_id=task_id, unanswered=True))
    waiting = [each for each in asked if each.waits]
    if not waiting:
        raise FleetError(f"{task_id} has no open question", hint=QuestionNotFound.hint)
    if len(waiting) > 1:
        names = ", ".join(each.question.id for each in waiting)
        raise UsageError(f"{task_id} has several open questions: {names}", hint="pass the id of a question")
    return waiting[0]


def answer(fleet: Fleet, name: str, text: str, *, by: str, caller: Caller | None = None) -> AnsweredQuestion:
    """Answer a question in Q&A.md and in the store. Reopen its task once no other question is open.

    Raises QuestionNotFound, AlreadyAnswered, BadInput, UsageError.
    """
    refuse_agents(caller, "answer questions")
    text = _checked(text)
    _take_answers(fleet, which(fleet, name).question.task_id)  # the first answer wins
    with fleet.store.atomic():
        asked = which(fleet, name)
        task_id = asked.question.task_id
        answered = fleet.store.questions.answer(asked.question.id, text, by=by)
        _write(fleet, answered, text)
        answer_same(fleet.store, answered, text, by=by)
        task = open_answered(fleet.store, fleet.store.tasks.get(task_id), answered.text)
        left = _with_tasks(fleet, fleet.store.questions.find(task_id=task_id, unanswered=True))
        waiting = sum(each.waits for each in left)
    wake(fleet.home)
    return AnsweredQuestion(answered, task, waiting)


def _write(fleet: Fleet, question: Question, text: str) -> None:
    folder = TaskFolder(task_home(fleet, question.task_id), question.task_id, now=fleet.store.now)
    try:
        folder.make()
        folder.append_answer(question.text, text, fleet.store.now())
    except OSError as error:
        raise FleetError(
            f"cannot write the answer: {error.strerror}", hint=f"check {folder.artifacts} and its disk"
        ) from error


def _take_answers(fleet: Fleet, task_id: str) -> None:
    take_answers(fleet.store, TaskFolder(task_home(fleet, task_id), task_id, now=fleet.store.now))


def _with_tasks(fleet: Fleet, found: list[Question]) -> list[TaskQuestion]:
    ids = tuple({question.task_id for question in found})
    tasks = {task.id: task for task in fleet.store.tasks.find(Filter(ids=ids), sort="id")} if ids else {}
    pages = {key: str(part(task_home(fleet, key), key, "qa")) for key in ids}
    return [TaskQuestion(each, tasks.get(each.task_id), pages[each.task_id]) for each in found]


def _checked(text: str) -> str:
    text = text.strip()
    if not text:
        raise BadInput("the answer is empty", hint="write some text; nothing was changed")
    if len(text) > LONGEST_ANSWER:
        raise BadInput(f"the answer has {len(text)} characters; the maximum is {LONGEST_ANSWER}")
    if "\0" in text:
        raise BadInput("the answer contains a NUL character")
    return text


#: The name recorded for questions that are withdrawn because their task was cancelled.
BY = "fleet"


def ask(fleet: Fleet, text: str, *, caller: Caller | None) -> Question:
    """Ask a person a question, or return the question that this task already asked with the same text.

    A withdrawn question can be asked again, but not by the run that asked it.

    Raises BadInput. Raises IllegalMove if the caller is not a live run.
    """
    if caller is None or not caller.is_live:
        raise IllegalMove(
            "only the agent of a running task can ask a person this way", hint="ask the person you talk to"
        )
    text = _checked_question(text)
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


def _checked_question(text: str) -> str:
    text = text.strip()
    if not text:
        raise BadInput("the question is empty", hint="write what you need to know")
    if len(text) > LONGEST_QUESTION:
        raise BadInput(f"the question has {len(text)} characters; the maximum is {LONGEST_QUESTION}", hint="shorten it")
    if "\0" in text:
        raise BadInput("the question contains a NUL character", hint="remove the NUL character")
    return text
