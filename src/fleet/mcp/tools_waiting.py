"""Tools that wait, without holding a thread: for a change of tasks, and for a person's answer."""

from __future__ import annotations

import asyncio
import hashlib
import time
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple

from msgspec import Meta

from fleet.actions.tasks import questions
from fleet.actions.workers import views, wait_cursor, workers, workflows
from fleet.actions.workers.warnings import why_waiting
from fleet.core.errors import BadInput
from fleet.core.filter import Filter
from fleet.core.run import BY_TOOL
from fleet.mcp.tool import Given, Tool
from fleet.workflows.ids import is_workflow

if TYPE_CHECKING:
    from fleet.actions.workers.wait_cursor import WaitCursor
    from fleet.actions.workers.workers import Worker
    from fleet.actions.workers.workflows import Flow
    from fleet.assembly import Fleet
    from fleet.core.run import Question
    from fleet.core.task import Caller, Task
    from fleet.mcp.context import ToolContext
    from fleet.mcp.tool import Answer, Tell

MOST_IDS = 1000
LONGEST_WAIT = 3600.0
#: Pause between two checks, in seconds. Clients abandon a call after a minute of silence.
SHORTEST_PAUSE, LONGEST_PAUSE = 0.004, 0.5
#: Checks take at most the first share of the time. The pause is at least the second share of the time waited so far.
SHARE, LATER = 1 / 10, 1 / 50
TELL_SECONDS = 5.0


class Wait(Given, frozen=True, kw_only=True):
    """Target and time limit of a wait."""

    ids: Annotated[
        tuple[str, ...],
        Meta(
            description="Workers, tasks or workflows. [default: all unfinished ones created here; with a cursor also "
            "those that ended since. An agent of fleet sees only those of its own task.]"
        ),
    ] = ()
    until: Annotated[str, Meta(description="change: any of them changed; any: one finished; all: all finished.")] = (
        "change"
    )
    cursor: Annotated[str, Meta(description="The cursor of the last wait, to include changes since then.")] = ""
    timeout_seconds: float = 50.0


class AskHuman(Given, frozen=True, kw_only=True):
    """A question to a person."""

    question: str
    timeout_seconds: Annotated[
        float | None, Meta(description="Stop waiting after this time; the question stays open.")
    ] = None


class Aim(NamedTuple):
    """The target of a waiting call."""

    ids: list[str]
    until: str
    before: str  # the earlier state as a cursor; empty: the state at the start
    mark: WaitCursor | None = None  # for a wait without ids: everything up to here has been reported to the caller
    caller: Caller | None = None


class WaitSnapshot(NamedTuple):
    """The state of the awaited tasks and workflows at one moment."""

    tasks: list[Task]
    asked: dict[str, Question]  # questions of tasks to a person, by task id
    flows: list[Flow]

    @property
    def cursor(self) -> str:
        """Return a mark that changes with every change of state."""
        lines = [
            f"{task.id} {task.status} {task.run_id} {self.asked[task.id].id if task.id in self.asked else ''}"
            for task in self.tasks
        ]
        lines += [f"{flow.workflow.id} {seen.task_id} {seen.state}" for flow in self.flows for seen in flow.stages]
        return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[: wait_cursor.STATE_LENGTH]

    @property
    def going(self) -> WaitSnapshot:
        """Return the look without items at rest. A wait without ids has already reported those."""
        tasks = [task for task in self.tasks if not task.is_at_rest]
        return WaitSnapshot(tasks, self.asked, [flow for flow in self.flows if not flow.rests()])

    @property
    def over(self) -> int:
        """Return how many items need no further wait: they have finished, or ask a person."""
        tasks = sum(task.is_at_rest or task.id in self.asked for task in self.tasks)
        return tasks + sum(flow.rests(self.asked) for flow in self.flows)

    @property
    def all(self) -> int:
        return len(self.tasks) + len(self.flows)

    def meets(self, aim: Aim) -> bool:
        if self.over == self.all:
            return True
        return self.over > 0 if aim.until == "any" else aim.until == "change" and self.cursor != aim.before


async def _wait(desk: ToolContext, given: Wait, tell: Tell) -> Answer:
    if given.until not in ("change", "any", "all"):
        raise BadInput(f"until {given.until[:40]!r} is not valid", hint="pass change, any or all")
    if not 0 <= given.timeout_seconds <= LONGEST_WAIT or len(given.ids) > MOST_IDS:
        raise BadInput(
            "the wait is too long or has too many ids", hint=f"pass at most {LONGEST_WAIT:g} s and {MOST_IDS} ids"
        )
    began, told, took = time.monotonic(), 0.0, 0.0
    aim = Aim(list(given.ids), given.until, given.cursor) if given.ids else await desk.ask(partial(_all, desk, given))
    look = await desk.ask(partial(_look, ids=aim.ids))
    aim = aim._replace(before=aim.before or look.cursor)
    while not look.meets(aim):
        waited = time.monotonic() - began
        if waited >= given.timeout_seconds:
            break
        if waited >= told:
            desk.see_to_supervisor()  # an earlier supervisor may have been killed
            await tell(waited, f"{look.over} of {look.all} finished")
            told = waited + TELL_SECONDS
        pause = min(LONGEST_PAUSE, max(SHORTEST_PAUSE, waited * LATER, took / SHARE))
        await asyncio.sleep(min(pause, given.timeout_seconds - waited))
        since = time.monotonic()
        look = await desk.ask(partial(_look, ids=aim.ids))
        took = time.monotonic() - since
    return await desk.ask(partial(_answer, aim))


def _all(desk: ToolContext, given: Wait, fleet: Fleet) -> Aim:
    """Return the target of a wait without ids: everything made here that is unfinished or ended since the cursor."""
    with fleet.store.snapshot():
        caller = desk.caller(fleet)
        mark = wait_cursor.mark_in(given.cursor) or wait_cursor.mark(fleet, caller)
        ids = wait_cursor.unfinished(fleet, caller) + wait_cursor.ended_since(fleet, caller, mark)
    return Aim(ids, given.until, mark.state, mark, caller)


def _answer(aim: Aim, fleet: Fleet) -> Answer:
    with fleet.store.snapshot():
        # New items may have been created and finished during the wait.
        ended = wait_cursor.ended_since(fleet, aim.caller, aim.mark) if aim.mark else []
        look = _look(fleet, list(dict.fromkeys(aim.ids + ended)))
        cursor = wait_cursor.mark(fleet, aim.caller, look.going.cursor).text if aim.mark else look.cursor
        found = workers.some(fleet, [task.id for task in look.tasks])
        waits = views.reasons(fleet, found)
        stuck = {flow.workflow.id: _stuck(fleet, flow) for flow in look.flows}
    return {
        "timed_out": not look.meets(aim),
        "changed": look.cursor != aim.before,
        "over": look.over,
        "count": look.all,
        "cursor": cursor,
        "tasks": [_shown(each, waits.get(each.task.id)) for each in found],
        "workflows": [_flow(each, look.asked, stuck[each.workflow.id]) for each in look.flows],
    }


def _look(fleet: Fleet, ids: list[str]) -> WaitSnapshot:
    keys = tuple(key for key in ids if not is_workflow(key))
    with fleet.store.snapshot():
        found = fleet.store.tasks.find(Filter(ids=keys), sort="id") if keys else []
        live = {run.task_id for run in fleet.store.runs.live()}
        # An earlier run's question does not block a working agent. An agent that asks by a tool does wait.
        waiting = fleet.store.questions.find(unanswered=True)
        asked = {each.task_id: each for each in waiting if each.source == BY_TOOL or each.task_id not in live}
        flows = [workflows.flow(fleet, key) for key in ids if is_workflow(key)]
    here = {task.id for task in found}
    if missing := [key for key in keys if key not in here]:
        raise workers.WorkerNotFound(missing[0])
    return WaitSnapshot(found, asked, flows)


def _stuck(fleet: Fleet, flow: Flow) -> str:
    """Return why stages that are ready to start still wait for their coder."""
    state = workflows.StageState
    starting = [seen for seen in flow.stages if seen.state in (state.READY, state.RUNNING) and seen.run is None]
    ready = {seen.task.coder for seen in starting if seen.task}
    return "; ".join(why_waiting(fleet, ready).values())


def _shown(worker: Worker, waits: str | None) -> Answer:
    task, asked = worker.task, worker.question
    return {
        "id": task.id,
        "title": task.title,
        "status": worker.status,
        "task_status": task.status,
        "finding": task.finding or None,
        "reason": task.reason or task.close_reason or waits,
        "question": {"id": asked.id, "text": asked.text} if asked else None,
    }


def _flow(flow: Flow, asked: dict[str, Question], stuck: str) -> Answer:
    asking = [asked[seen.task_id] for seen in flow.stages if seen.task_id in asked]
    return {
        "id": flow.workflow.id,
        "name": flow.workflow.name,
        "status": flow.status,
        "reason": flow.trouble or stuck or None,
        "stages": {seen.stage.name: seen.state for seen in flow.stages},
        "questions": [{"id": each.id, "task": each.task_id, "text": each.text} for each in asking],
    }


async def _ask(desk: ToolContext, given: AskHuman, tell: Tell) -> Answer:
    began, told = time.monotonic(), 0.0
    asked = await desk.ask(lambda fleet: questions.ask(fleet, given.question, caller=desk.caller(fleet)))
    while asked.answered_at is None:
        waited = time.monotonic() - began
        if given.timeout_seconds is not None and waited >= given.timeout_seconds:
            hint = "the question stays open: ask it again to resume waiting"
            return {"question_id": asked.id, "answered": False, "answer": None, "hint": hint}
        if waited >= told:
            await tell(waited, f"waiting for a person: `fleet answer {asked.id} TEXT`")
            told = waited + TELL_SECONDS
        await asyncio.sleep(LONGEST_PAUSE)
        asked = await desk.ask(partial(_again, key=asked.id))
    if asked.is_withdrawn:
        hint = "the question was withdrawn: your task was cancelled"
        return {"question_id": asked.id, "answered": False, "answer": None, "hint": hint}
    return {"question_id": asked.id, "answered": True, "answer": asked.answer, "answered_by": asked.answered_by}


def _again(fleet: Fleet, key: str) -> Question:
    return fleet.store.questions.get(key)


TOOLS = (
    Tool(
        "wait",
        "Wait until workers, tasks or workflows change or finish, or the time is up. Cheaper than polling.",
        Wait,
        _wait,
        reads_only=True,
    ),
    Tool(
        "ask_human",
        "Ask a person and wait for the answer, with no time limit. For agents of fleet's tasks that cannot continue "
        "without it. To resume waiting after a break, ask the same question again.",
        AskHuman,
        _ask,
    ),
)
