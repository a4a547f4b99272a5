"""What agents ask, and people's answers: the first one wins and sends the task on its way again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.rights import refuse_agents
from fleet.actions.runs import task_home
from fleet.actions.tasks import find_id
from fleet.core.errors import AlreadyAnswered, BadInput, FleetError, QuestionNotFound, TaskNotFound, Usage
from fleet.core.filter import Filter
from fleet.core.run import BY_TOOL
from fleet.core.task import Status
from fleet.engine.folder import TaskFolder
from fleet.wake import wake

if TYPE_CHECKING:
    from typing import Any

    from fleet.assembly import Fleet
    from fleet.core.run import Question
    from fleet.core.task import Caller, Task

LONGEST_ANSWER = 64 * 1024


class Asked(NamedTuple):
    """A question with the task it belongs to."""

    question: Question
    task: Task | None
    in_file: str  # what somebody answered in Q&A.md by hand

    @property
    def waits(self) -> bool:
        """Whether somebody should answer it."""
        if self.question.answered_at is not None or self.in_file or self.task is None:
            return False
        return self.task.status == Status.BLOCKED or self.question.source == BY_TOOL

    def view(self) -> dict[str, Any]:
        """What every face shows of it, as plain data."""
        asked = self.question
        return {
            "id": asked.id,
            "task": asked.task_id,
            "title": self.task.title if self.task else None,
            "run": asked.run_id,
            "asked_at": asked.asked_at.isoformat(timespec="seconds"),
            "text": asked.text,
            "waits": self.waits,
            "withdrawn": asked.is_withdrawn,
            "answer": asked.answer if asked.answer is not None else self.in_file or None,
            "answered_at": asked.answered_at.isoformat(timespec="seconds") if asked.answered_at else None,
            "answered_by": asked.answered_by or ("Q&A.md" if self.in_file else ""),
        }


class Answered(NamedTuple):
    """What an answer led to."""

    question: Question
    task: Task
    left: int  # questions of the same task that still wait


def questions(fleet: Fleet, *, everything: bool = False) -> list[Asked]:
    """The questions that wait for a person, oldest first; with `everything` also the ones that are over."""
    found = _with_tasks(fleet, fleet.history.questions(unanswered=not everything))
    return found if everything else [each for each in found if each.waits]


def which(fleet: Fleet, name: str) -> Asked:
    """The question meant by its own id, or by that of the task that asks. Raises QuestionNotFound, Usage."""
    try:
        return _with_tasks(fleet, [fleet.history.question(name)])[0]
    except QuestionNotFound as error:
        try:
            task_id = find_id(fleet.queue, name)
        except TaskNotFound:
            raise error from None
    asked = _with_tasks(fleet, fleet.history.questions(task_id=task_id, unanswered=True))
    waiting = [each for each in asked if each.waits]
    if not waiting:
        raise FleetError(f"{task_id} asks nothing", hint=QuestionNotFound.hint)
    if len(waiting) > 1:
        names = ", ".join(each.question.id for each in waiting)
        raise Usage(f"{task_id} asks several questions: {names}", hint="name the one you answer.")
    return waiting[0]


def answer(fleet: Fleet, name: str, text: str, *, by: str, caller: Caller | None = None) -> Answered:
    """Answer a question: in Q&A.md, on record, and, once nothing else is asked, by opening its task again.

    Raises QuestionNotFound, AlreadyAnswered, BadInput, Usage.
    """
    refuse_agents(caller, "answer questions")
    text = _checked(text)
    with fleet.queue.atomic():
        asked = which(fleet, name)
        task_id = asked.question.task_id
        answered = fleet.history.answer(asked.question.id, text, by=by)
        _write(fleet, answered, text)
        left = [each for each in _with_tasks(fleet, fleet.history.questions(task_id=task_id, unanswered=True))]
        waiting = sum(each.waits for each in left)
        task = fleet.queue.get(task_id)
        if task.status == Status.BLOCKED and not waiting:
            task = task.reopened(fleet.queue.now()).replace(assignee="", reason=f"answered: {_short(answered.text)}")
            fleet.queue.save(task)
    wake(fleet.home)
    return Answered(answered, task, waiting)


def _write(fleet: Fleet, question: Question, text: str) -> None:
    folder = TaskFolder(task_home(fleet, question.task_id), question.task_id, now=fleet.queue.now)
    try:
        folder.make()
        is_new = folder.append_answer(question.text, text, fleet.queue.now())
    except OSError as error:
        raise FleetError(f"cannot write the answer: {error.strerror}", hint=f"look at {folder.artifacts}.") from error
    if not is_new:
        raise AlreadyAnswered(
            f"question {question.id} was answered in Q&A.md by hand",
            hint=f'`fleet bd update {question.task_id} --status open --assignee ""` sends the task on its way.',
        )


def _with_tasks(fleet: Fleet, found: list[Question]) -> list[Asked]:
    ids = tuple({question.task_id for question in found})
    tasks = {task.id: task for task in fleet.queue.find(Filter(ids=ids), sort="id")} if ids else {}
    answers = {key: _in_file(fleet, key) for key in ids}
    return [
        Asked(each, tasks.get(each.task_id), "" if each.answered_at else answers[each.task_id].get(_key(each.text), ""))
        for each in found
    ]


def _in_file(fleet: Fleet, task_id: str) -> dict[str, str]:
    """The answers that stand in a task's Q&A.md; of a question asked twice, the last one counts."""
    return {_key(each.text): each.answer for each in TaskFolder(task_home(fleet, task_id), task_id).questions()}


def _key(text: str) -> str:
    return " ".join(text.strip().partition("\n")[0].split())


def _checked(text: str) -> str:
    text = text.strip()
    if not text:
        raise BadInput("the answer is empty", hint="say something; nothing was changed.")
    if len(text) > LONGEST_ANSWER:
        raise BadInput(f"the answer has {len(text)} characters; {LONGEST_ANSWER} are the most")
    if "\0" in text:
        raise BadInput("the answer has a NUL in it")
    return text


def _short(text: str) -> str:
    line = _key(text)
    return line if len(line) <= 80 else line[:79] + "…"
