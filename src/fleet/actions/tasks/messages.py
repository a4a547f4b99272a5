"""Messages to agents while they work. A message is stored first, then delivered; its delivery can be watched."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from fleet import coders
from fleet.actions.tasks import questions
from fleet.actions.tasks.names import ANYWHERE, find_task
from fleet.actions.tasks.rights import refuse_agents
from fleet.actions.worktrees import agents
from fleet.coders.base import NEXT_RUN, STDIN
from fleet.core.errors import BadInput, FleetError, IllegalMove, UsageError
from fleet.core.ids import new_uuid
from fleet.core.run import Delivery, Message
from fleet.core.task import Status
from fleet.core.workflow import was_stopped
from fleet.supervisor.lock import holder
from fleet.wake import wake

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from fleet.actions.tasks.names import NameScope
    from fleet.assembly import Fleet
    from fleet.core.run import Run
    from fleet.core.task import Caller, Task

LONGEST_MESSAGE = 64 * 1024  # bytes
PAUSE_SECONDS = 0.1


class Way:
    """The ways of delivering a message that was not sent yet."""

    NOW = "now"  # the agent reads while it works
    INTERRUPTS = "interrupts"  # the agent is stopped for it
    NEXT_RUN = "next run"
    AFTER_ANSWER = "after the answer"  # the task waits for an answer, and runs only then


class StoppedBefore(UsageError):
    """A message to a task that a person stopped: the message would start the task again."""


class MessageStatus(NamedTuple):
    """A message to a task's agent, and what is known about its delivery."""

    message: Message
    task: Task
    run: Run | None  # the current state of the run that was live when the message was written
    steering: str  # the kind of steering that the run's coder supports
    question: str  # the id of the question that the task waits for
    supervised: bool  # True if a supervisor runs that can deliver it

    @property
    def way(self) -> str:
        if self.question:
            return Way.AFTER_ANSWER
        if self.run is None:
            return Way.NEXT_RUN
        if self.steering == STDIN:
            return Way.NOW
        return Way.INTERRUPTS if self.message.interrupts or self.steering != NEXT_RUN else Way.NEXT_RUN

    @property
    def is_order_to_stop(self) -> bool:
        return not self.message.text

    @property
    def may_move_soon(self) -> bool:
        if not self.supervised or self.question:
            return False
        if self.is_order_to_stop:
            return self.run is not None and self.run.is_live
        waits_for_an_end = self.way == Way.NEXT_RUN and self.run is not None and self.run.is_live
        return self.message.state in (Delivery.QUEUED, Delivery.SENT) and not waits_for_an_end

    def view(self) -> dict[str, Any]:
        message = self.message
        moments = ("queued_at", "sent_at", "delivered_at", "carried_at")
        return {
            "id": message.id,
            "task": message.task_id,
            "task_status": self.task.status,
            "run": message.run_id or (self.run.id if self.run else None),
            "text": message.text,
            "author": message.author,
            "interrupts": message.interrupts,
            "state": message.state,
            "way": self.way,
            **{name: _instant(getattr(message, name)) for name in moments},
            "question": self.question or None,
            "supervisor": self.supervised,
        }


def prompt(
    fleet: Fleet,
    name: str,
    text: str,
    *,
    by: str,
    revive: bool = False,
    caller: Caller | None = None,
    scope: NameScope = ANYWHERE,
) -> MessageStatus:
    """Store a message for a task's agent and have it delivered. Reopen a blocked task that has no open question.

    Raises TaskNotFound, UsageError, BadInput, IllegalMove if the task is closed, and StoppedBefore if the task was
    stopped and `revive` is not set.
    """
    refuse_agents(caller, "tell other agents what to do")
    text, key = checked(text), find_task(fleet, name, scope=scope)
    with fleet.store.atomic():
        task, run = fleet.store.tasks.get(key), _live(fleet, key)
        if task.status == Status.CLOSED:
            raise IllegalMove(
                f"{key} is closed: no agent would read the message", hint=f"run `fleet retry {key}` to reopen it"
            )
        question = ""
        if task.status == Status.BLOCKED and run is None and not task.is_supervised:
            if was_stopped(task) and not revive:
                raise StoppedBefore(
                    f"{name} was stopped ({task.reason}): the message would start it again",
                    hint="pass --yes to start it again with this message.",
                )
            question = _waits_for(fleet, key)
            task = task if question else agents.retry(fleet, [key])[0]
        message = _kept(fleet, key, text, by)
    return _told(fleet, message, task, run, question)


def interrupt(
    fleet: Fleet, name: str, text: str = "", *, by: str, caller: Caller | None = None, scope: NameScope = ANYWHERE
) -> MessageStatus:
    """Interrupt a running agent, with a message, or until another message arrives.

    Raises TaskNotFound, UsageError, BadInput, and IllegalMove if the task is not running.
    """
    refuse_agents(caller, "interrupt other agents")
    text, key = checked(text) if text else "", find_task(fleet, name, scope=scope, exact=True)
    with fleet.store.atomic():
        task, run = fleet.store.tasks.get(key), _live(fleet, key)
        if run is None:
            waits = (
                f"run `fleet prompt {key} TEXT` to reach its next run, or `fleet kill {key}` to stop it from starting"
            )
            raise IllegalMove(
                f"{key} is not running: there is nothing to interrupt",
                hint=f"run `fleet retry {key}` to reopen it" if task.status == Status.CLOSED else waits,
            )
        message = _kept(fleet, key, text, by, interrupts=True)
    return _told(fleet, message, task, run)


def watch(fleet: Fleet, told: MessageStatus, seconds: float) -> MessageStatus:
    """Return the state of a message after at most `seconds`, or earlier if no more changes are expected."""
    deadline = time.monotonic() + seconds
    while told.may_move_soon and (left := deadline - time.monotonic()) > 0:
        time.sleep(min(PAUSE_SECONDS, left))
        told = _look(fleet, told)
    return told


def checked(text: str) -> str:
    """Return the text without surrounding white space. Raises BadInput if it cannot be a message."""
    text = text.strip()
    if not text:
        raise BadInput("the message is empty", hint="write some text; nothing was changed")
    if "\0" in text:
        raise BadInput("the message contains a NUL character", hint="remove the NUL character; nothing was changed")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise BadInput("the message is not UTF-8 text", hint="convert it to UTF-8 first") from error
    if size > LONGEST_MESSAGE:
        raise BadInput(
            f"the message has {size} bytes; the maximum is {LONGEST_MESSAGE}",
            hint="write the text to a file and send the path",
        )
    return text


def _live(fleet: Fleet, key: str) -> Run | None:
    return next((run for run in fleet.store.runs.live() if run.task_id == key), None)


def _waits_for(fleet: Fleet, key: str) -> str:
    """Return the id of the question that a task waits for. Return "" if it has none."""
    asked = (each.question for each in questions.questions(fleet))
    return next((question.id for question in asked if question.task_id == key), "")


def _kept(fleet: Fleet, key: str, text: str, by: str, *, interrupts: bool = False) -> Message:
    now = fleet.store.now()
    message = Message(id=new_uuid(), task_id=key, author=by, text=text, interrupts=interrupts, queued_at=now)
    fleet.store.messages.add(message)
    return message


def _told(fleet: Fleet, message: Message, task: Task, run: Run | None, question: str = "") -> MessageStatus:
    wake(fleet.home)
    return MessageStatus(message, task, run, _steering(fleet, task, run), question, holder(fleet.home) is not None)


def _steering(fleet: Fleet, task: Task, run: Run | None) -> str:
    if run is None:
        return ""
    if run.session_name:
        return STDIN  # its terminal accepts typed text
    try:
        return coders.load(run.coder, agents.CoderChoice(fleet).settings(task.cwd)).steering
    except FleetError:  # the coder was removed from the settings; the next run gets the message
        return NEXT_RUN


def _look(fleet: Fleet, told: MessageStatus) -> MessageStatus:
    key = told.message.id
    with fleet.store.snapshot():
        message = next((each for each in fleet.store.messages.find(told.task.id) if each.id == key), told.message)
        run = fleet.store.runs.get(told.run.id) if told.run else None
        try:
            task = fleet.store.tasks.get(told.task.id)
        except FleetError:  # deleted meanwhile
            task = told.task
    return told._replace(message=message, run=run or told.run, task=task)


def _instant(moment: datetime | None) -> str | None:
    return moment.isoformat(timespec="milliseconds") if moment else None
