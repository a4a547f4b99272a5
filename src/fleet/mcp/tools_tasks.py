"""fleet's own tools for tasks: create, list, show, prompt their agents, and show their changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from fleet.actions.tasks.names import find_task
from fleet.actions.workers import task_calls
from fleet.actions.workers.create import WorkerCreator
from fleet.actions.workers.task_calls import TaskOrder
from fleet.actions.worktrees import views
from fleet.mcp.tool import Given, Tool, off_loop

if TYPE_CHECKING:
    from fleet.assembly import Fleet
    from fleet.mcp.context import ToolContext
    from fleet.mcp.tool import Answer, Tell

#: Models do not read more of a diff than this.
LONGEST_DIFF = 200_000


class CreateTask(Given, frozen=True, kw_only=True):
    """Arguments of a new task."""

    title: str
    prompt: Annotated[str, Meta(description="Instructions for the agent.")] = ""
    cwd: Annotated[str, Meta(description="The directory to work in. [default: an empty folder]")] = ""
    branch: Annotated[str, Meta(description="Create a git worktree on this branch.")] = ""
    base: str = ""
    coder: str = ""
    model: str = ""
    verify: str = ""
    priority: int = 2
    labels: tuple[str, ...] = ()
    needs: Annotated[tuple[str, ...], Meta(description="Ids of tasks that must be closed first.")] = ()
    requires: Annotated[tuple[str, ...], Meta(description="Labels that the host must offer.")] = ()
    host: Annotated[str, Meta(description="The only host that may run the task.")] = ""


class ListTasks(Given, frozen=True, kw_only=True):
    """Filter for the listed tasks."""

    statuses: list[str] | None = None
    text: str = ""
    limit: int = 50


class OfTask(Given, frozen=True, kw_only=True):
    """The id of one task."""

    task_id: Annotated[str, Meta(description="The id of a task or worker, or its branch.")]


class Prompt(OfTask, frozen=True, kw_only=True):
    """A message to a task's agent."""

    text: str


class Diff(OfTask, frozen=True, kw_only=True):
    """Options of a diff."""

    stat: Annotated[bool, Meta(description="Show only the number of changed lines per file.")] = False
    names: Annotated[bool, Meta(description="Show only file names.")] = False


async def _create(desk: ToolContext, given: CreateTask, _tell: Tell) -> Answer:
    def work(fleet: Fleet) -> Answer:
        order = TaskOrder(**{name: getattr(given, name) for name in TaskOrder._fields})
        task, warnings = task_calls.create(fleet, order, desk.terms, WorkerCreator(desk.by, desk.caller(fleet)))
        return {**task_calls.view(task), "warnings": warnings}

    made = await desk.ask(work)
    desk.see_to_supervisor()
    return made


def _list(_desk: ToolContext, fleet: Fleet, given: ListTasks) -> Answer:
    statuses = tuple(given.statuses) if given.statuses is not None else None
    found = task_calls.listed(fleet, statuses=statuses, text=given.text, limit=given.limit)
    return {"tasks": found, "count": len(found)}


def _show(_desk: ToolContext, fleet: Fleet, given: OfTask) -> Answer:
    return task_calls.shown(fleet, given.task_id)


def _prompt(desk: ToolContext, fleet: Fleet, given: Prompt) -> Answer:
    return task_calls.tell_agent(fleet, given.task_id, given.text, by=desk.by, caller=desk.caller(fleet))


def _diff(_desk: ToolContext, fleet: Fleet, given: Diff) -> Answer:
    key = find_task(fleet, given.task_id)
    text = views.difference(fleet, key, stat=given.stat, names=given.names)
    return {"task_id": key, "diff": text[:LONGEST_DIFF], "cut": len(text) > LONGEST_DIFF, "characters": len(text)}


TOOLS = (
    Tool(
        "create_task",
        "Add a task to the queue. An agent starts when a slot is free and its dependencies are closed. "
        "To wait for one agent on one branch, use create_worker.",
        CreateTask,
        _create,
    ),
    Tool(
        "list_tasks",
        "List unfinished tasks or tasks with the given statuses (open, in_progress, blocked, closed …), newest first.",
        ListTasks,
        off_loop(_list),
        reads_only=True,
    ),
    Tool("show_task", "Show a task with its runs, questions and result.", OfTask, off_loop(_show), reads_only=True),
    Tool(
        "prompt_agent",
        "Send a message to a task's agent, now or for its next run. A stopped task is reopened.",
        Prompt,
        off_loop(_prompt),
    ),
    Tool(
        "diff",
        "Show the changes of a task against its base, including uncommitted changes.",
        Diff,
        off_loop(_diff),
        reads_only=True,
    ),
)
