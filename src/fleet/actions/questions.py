"""Agents' questions and users' answers. The first answer wins. The task reopens after its last open question."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.reading import part
from fleet.actions.rights import refuse_agents
from fleet.actions.runs import task_home
from fleet.actions.tasks import find_id
from fleet.core.errors import BadInput, FleetError, QuestionNotFound, TaskNotFound, Usage
from fleet.core.filter import Filter
from fleet.core.run import BY_TOOL
from fleet.core.task import Status
from fleet.engine.answers import LONGEST_ANSWER, answer_same, open_answered, take_answers
from fleet.engine.folder import TaskFolder
from fleet.wake import wake

if TYPE_CHECKING:
    from typing import Any

    from fleet.assembly import Fleet
    from fleet.core.run import Question
    from fleet.core.task import Caller, Task


class Asked(NamedTuple):
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


class Answered(NamedTuple):
    """The result of an answer."""

    question: Question
    task: Task
    left: int  # number of open questions of the same task


def questions(fleet: Fleet, *, everything: bool = False) -> list[Asked]:
    """Return the questions that wait for a person, oldest first. With `everything`, return the others too."""
    for task_id in {each.task_id for each in fleet.store.questions.find(unanswered=True)}:
        _take_answers(fleet, task_id)
    found = _with_tasks(fleet, fleet.store.questions.find(unanswered=not everything))
    return found if everything else [each for each in found if each.waits]


def which(fleet: Fleet, name: str) -> Asked:
    """Return the question with this id, or the open question of the task with this id.

    Raises QuestionNotFound, Usage if the task asks several, and FleetError if it asks none.
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
        raise FleetError(f"{task_id} asks nothing", hint=QuestionNotFound.hint)
    if len(waiting) > 1:
        names = ", ".join(each.question.id for each in waiting)
        raise Usage(f"{task_id} asks several questions: {names}", hint="name the one you answer.")
    return waiting[0]


def answer(fleet: Fleet, name: str, text: str, *, by: str, caller: Caller | None = None) -> Answered:
    """Answer a question in Q&A.md and in the store. Reopen its task once no other question is open.

    Raises QuestionNotFound, AlreadyAnswered, BadInput, Usage.
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
    return Answered(answered, task, waiting)


def _write(fleet: Fleet, question: Question, text: str) -> None:
    folder = TaskFolder(task_home(fleet, question.task_id), question.task_id, now=fleet.store.now)
    try:
        folder.make()
        folder.append_answer(question.text, text, fleet.store.now())
    except OSError as error:
        raise FleetError(f"cannot write the answer: {error.strerror}", hint=f"look at {folder.artifacts}.") from error


def _take_answers(fleet: Fleet, task_id: str) -> None:
    take_answers(fleet.store, TaskFolder(task_home(fleet, task_id), task_id, now=fleet.store.now))


def _with_tasks(fleet: Fleet, found: list[Question]) -> list[Asked]:
    ids = tuple({question.task_id for question in found})
    tasks = {task.id: task for task in fleet.store.tasks.find(Filter(ids=ids), sort="id")} if ids else {}
    pages = {key: str(part(task_home(fleet, key), key, "qa")) for key in ids}
    return [Asked(each, tasks.get(each.task_id), pages[each.task_id]) for each in found]


def _checked(text: str) -> str:
    text = text.strip()
    if not text:
        raise BadInput("the answer is empty", hint="say something; nothing was changed.")
    if len(text) > LONGEST_ANSWER:
        raise BadInput(f"the answer has {len(text)} characters; {LONGEST_ANSWER} are the most")
    if "\0" in text:
        raise BadInput("the answer has a NUL in it")
    return text
