"""Everything that agents wait for: their questions, and the dialogs on their screens; and the answers of users.

The first answer to a question wins. Its task reopens after its last open question.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.control.home_files import part
from fleet.actions.tasks import screens
from fleet.actions.tasks.names import ANYWHERE, find_task
from fleet.actions.tasks.rights import refuse_agents
from fleet.actions.tasks.runs import task_home
from fleet.actions.tasks.screens import Chosen, Shown
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
from fleet.core.run import BY_TOOL, Message, Question
from fleet.core.task import Caller, Status
from fleet.supervisor.answers import LONGEST_ANSWER, answer_same, open_answered, take_answers
from fleet.supervisor.questions_file import LONGEST_QUESTION
from fleet.supervisor.task_folder import TaskFolder
from fleet.wake import wake

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from fleet.actions.tasks.names import NameScope
    from fleet.assembly import Fleet
    from fleet.core.task import Task


_OPTION = re.compile(r"\s*(?:[-*]\s+)?\(?(\d{1,2})[.)]\s+(\S.*)")


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

    @property
    def id(self) -> str:
        return self.question.id

    @property
    def options(self) -> list[str]:
        """Return the choices that the question offers, numbered in its text from 1."""
        return options_in(self.question.text)

    def view(self) -> dict[str, Any]:
        asked = self.question
        return {
            "kind": "question",
            "id": asked.id,
            "task": asked.task_id,
            "branch": (self.task.branch or None) if self.task else None,
            "title": self.task.title if self.task else None,
            "run": asked.run_id,
            "asked_at": asked.asked_at.isoformat(timespec="seconds"),
            "text": asked.text,
            "options": [{"number": number, "text": text} for number, text in enumerate(self.options, 1)],
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


def inbox(fleet: Fleet, *, everything: bool = False) -> list[TaskQuestion | Shown]:
    """Return all that agents wait for, oldest first. With `everything`, include past questions."""
    runs = {run.task_id: run for run in fleet.store.runs.live()}
    tasks = fleet.store.tasks.find(Filter(ids=tuple(runs)), sort="id") if runs else []
    dialogs = screens.shown_dialogs(fleet, [(task, runs[task.id]) for task in tasks])
    asked: list[TaskQuestion | Shown] = [*questions(fleet, everything=everything), *dialogs]
    return sorted(asked, key=lambda each: (each.view()["asked_at"], each.id))


def which(fleet: Fleet, name: str, scope: NameScope = ANYWHERE) -> TaskQuestion | Shown:
    """Return the question or dialog with this number, or the only one of the task with this name.

    Raises QuestionNotFound, UsageError if the task has several, and FleetError if it has none.
    """
    try:
        return _with_tasks(fleet, [fleet.store.questions.get(name)])[0]
    except QuestionNotFound as error:
        missing = error
    if name.startswith(screens.PREFIX):
        found = [each for each in inbox(fleet) if each.id == name]
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(f"{len(found)} agents show the dialog {name}", hint="name the task.")
    try:
        task_id = find_task(fleet, name, scope=scope)
    except TaskNotFound:
        raise missing from None
    waiting = asked_by(fleet, task_id)
    if not waiting:
        raise FleetError(f"{task_id} has no open question", hint=QuestionNotFound.hint)
    if len(waiting) > 1:
        names = ", ".join(each.id for each in waiting)
        raise UsageError(f"{task_id} has several open questions: {names}", hint="pass the id of a question")
    return waiting[0]


def asked_by(fleet: Fleet, task_id: str) -> list[TaskQuestion | Shown]:
    """Return what one task waits for."""
    asked = _with_tasks(fleet, fleet.store.questions.find(task_id=task_id, unanswered=True))
    waiting: list[TaskQuestion | Shown] = [each for each in asked if each.waits]
    run = next((run for run in fleet.store.runs.live() if run.task_id == task_id), None)
    shown = screens.shown_dialog(fleet, fleet.store.tasks.get(task_id), run) if run is not None else None
    return [*waiting, shown] if shown is not None else waiting


def answer(
    fleet: Fleet, name: str, text: str, *, by: str, caller: Caller | None = None, scope: NameScope = ANYWHERE
) -> AnsweredQuestion | Chosen:
    """Answer a question in Q&A.md and in the store, or type the choice into a dialog.

    Reopen the task once no other question is open. Raises QuestionNotFound, AlreadyAnswered, BadInput,
    UsageError, DialogChanged.
    """
    refuse_agents(caller, "answer questions")
    text = _checked(text)
    found = which(fleet, name, scope)
    if isinstance(found, Shown):
        return _choose(fleet, found, text, name, by)
    _take_answers(fleet, found.question.task_id)  # the first answer wins
    if text.isdecimal() and 1 <= int(text[:9]) <= len(found.options):
        text = f"{int(text)}. {found.options[int(text) - 1]}"
    with fleet.store.atomic():
        task_id = found.question.task_id
        answered = fleet.store.questions.answer(found.question.id, text, by=by)
        _write(fleet, answered, text)
        answer_same(fleet.store, answered, text, by=by)
        task = open_answered(fleet.store, fleet.store.tasks.get(task_id), answered.text)
        left = _with_tasks(fleet, fleet.store.questions.find(task_id=task_id, unanswered=True))
        waiting = sum(each.waits for each in left)
    wake(fleet.home)
    return AnsweredQuestion(answered, task, waiting)


def _choose(fleet: Fleet, shown: Shown, text: str, name: str, by: str) -> Chosen:
    """Type the choice. A task's name means only the dialog that a person was shown; its number means that dialog."""
    if name != shown.id and not screens.was_seen(fleet.home, shown):
        raise screens.DialogChanged(
            f"{name} shows a dialog that you have not seen: nothing was typed",
            hint="run `fleet questions` to see it, then answer again.",
        )
    chosen = screens.choose(fleet, shown, text)
    if chosen.message:
        now = fleet.store.now()
        message = Message(id=new_uuid(), task_id=shown.task.id, author=by, text=chosen.message, queued_at=now)
        fleet.store.messages.add(message)
    wake(fleet.home)
    return chosen


def options_in(text: str) -> list[str]:
    """Return the choices in a question's text: at least two lines numbered from 1, at its end."""
    found: list[str] = []
    for line in text.splitlines():
        match = _OPTION.fullmatch(line)
        if match and int(match[1]) == 1:
            found = [match[2].strip()]
        elif match and found and int(match[1]) == len(found) + 1:
            found.append(match[2].strip())
    return found if len(found) > 1 else []


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
