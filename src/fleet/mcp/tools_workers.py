"""codefleet's tools for workers, with codefleet's names, parameters and answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from fleet.actions.workers import health, views, workers
from fleet.actions.workers.create import WorkerOrder
from fleet.mcp.tool import Given, Tool, off_loop

if TYPE_CHECKING:
    from fleet.assembly import Fleet
    from fleet.mcp.context import ToolContext
    from fleet.mcp.tool import Answer, Tell


class NoArguments(Given, frozen=True, kw_only=True):
    """No arguments."""


class OfWorker(Given, frozen=True, kw_only=True):
    """The id of one worker."""

    worker_id: str


class CreateWorker(Given, frozen=True, kw_only=True):
    """Arguments of a new worker."""

    repo_path: Annotated[str, Meta(description="A checkout of the git repository.")]
    task_name: Annotated[str, Meta(description="The work in a few words; part of the branch name.")]
    prompt: Annotated[str, Meta(description="Complete instructions: the worker does not see your conversation.")]
    base_ref: Annotated[str, Meta(description="The branch, tag or commit to start from.")] = "HEAD"
    model: str | None = None
    executor: Annotated[str | None, Meta(description="The coder: codex, claude, gemini, opencode …")] = None
    reasoning_effort: str | None = None
    timeout_seconds: float | None = None
    profile: str | None = None
    tags: list[str] | None = None
    metadata: dict[str, Any] | None = None
    extra_args: Annotated[list[str] | None, Meta(description="More options for the coder's program.")] = None
    extra_codex_args: list[str] | None = None
    parent_worker_id: str | None = None
    verify: Annotated[str | None, Meta(description="A command that fleet runs to verify the result.")] = None
    requires: Annotated[tuple[str, ...], Meta(description="Labels that the host must offer.")] = ()
    host: Annotated[str, Meta(description="The only host that may run the worker.")] = ""


class ListWorkers(Given, frozen=True, kw_only=True):
    """Filter for the listed workers."""

    statuses: list[str] | None = None
    limit: int = 25


class CollectWorker(OfWorker, frozen=True, kw_only=True):
    """The worker to collect from, and how much of its log."""

    include_logs: bool = False
    log_tail_lines: int = 80


class CleanupWorker(OfWorker, frozen=True, kw_only=True):
    """A worker to clean up, and the parts to remove."""

    remove_branch: bool = True
    remove_worktree_dir: bool = True


async def _create(desk: ToolContext, given: CreateWorker, _tell: Tell) -> Answer:
    order = WorkerOrder(
        task_name=given.task_name,
        prompt=given.prompt,
        base_ref=given.base_ref,
        model=given.model or "",
        executor=given.executor or "",
        reasoning_effort=given.reasoning_effort or "",
        timeout_seconds=given.timeout_seconds,
        profile=given.profile or "",
        tags=tuple(given.tags or ()),
        metadata=given.metadata or {},
        extra_args=(*(given.extra_args or ()), *(given.extra_codex_args or ())),
        parent_worker_id=given.parent_worker_id or "",
        verify=given.verify or "",
        requires=given.requires,
        host=given.host,
    )
    return await desk.create_worker(given.repo_path, order)


def _health(desk: ToolContext, fleet: Fleet, _given: NoArguments) -> Answer:
    return health.health(fleet, desk.terms, env=desk.env, trouble=desk.trouble)


def _guide(desk: ToolContext, fleet: Fleet, _given: NoArguments) -> Answer:
    return health.guide(fleet, desk.terms, env=desk.env)


def _status(_desk: ToolContext, fleet: Fleet, given: OfWorker) -> Answer:
    return views.view(fleet, workers.worker(fleet, given.worker_id))


def _list(_desk: ToolContext, fleet: Fleet, given: ListWorkers) -> Answer:
    found = views.views(fleet, workers.workers(fleet, given.statuses, limit=given.limit))
    return {"workers": found, "count": len(found), "summary": views.summary(found)}


def _collect(_desk: ToolContext, fleet: Fleet, given: CollectWorker) -> Answer:
    lines = max(1, given.log_tail_lines) if given.include_logs else 0
    return views.collected(fleet, workers.worker(fleet, given.worker_id), lines)


def _cancel(desk: ToolContext, fleet: Fleet, given: OfWorker) -> Answer:
    return views.view(fleet, workers.cancel(fleet, given.worker_id, caller=desk.caller(fleet)))


def _cleanup(desk: ToolContext, fleet: Fleet, given: CleanupWorker) -> Answer:
    done = workers.cleanup(
        fleet,
        given.worker_id,
        remove_branch=given.remove_branch,
        remove_worktree=given.remove_worktree_dir,
        caller=desk.caller(fleet),
    )
    return {"worker_id": given.worker_id, **done.view()}


TOOLS = (
    Tool(
        "healthcheck",
        "Check fleet: supervisor, git, installed and logged-in coders, and defaults.",
        NoArguments,
        off_loop(_health),
        reads_only=True,
    ),
    Tool(
        "executor_guide",
        "Show which coder suits which work, with its success rate on this machine. Call only in doubt.",
        NoArguments,
        off_loop(_guide),
        reads_only=True,
    ),
    Tool(
        "create_worker",
        "Start one agent on its own branch and git worktree. Returns its worker_id at once. "
        "If all slots are taken, the worker is queued. It runs in the background; call `wait` to wait for it.",
        CreateWorker,
        _create,
    ),
    Tool("get_worker_status", "Show the state of a worker.", OfWorker, off_loop(_status), reads_only=True),
    Tool(
        "list_workers",
        "List the newest workers. Statuses: pending, running, succeeded, failed, cancelled, timed_out.",
        ListWorkers,
        off_loop(_list),
        reads_only=True,
    ),
    Tool(
        "collect_worker_result",
        "Get a worker's result: summary, files_changed, tests, commits, next_steps, status; on request its last log.",
        CollectWorker,
        off_loop(_collect),
        reads_only=True,
    ),
    Tool(
        "cancel_worker",
        "Stop a worker or prevent its start. Its worktree and branch are kept.",
        OfWorker,
        off_loop(_cancel),
    ),
    Tool(
        "cleanup_worker",
        "Remove a finished worker's worktree and branch. Uncommitted changes and the branch's tip are kept under "
        "refs/fleet; the answer names the refs. Merge the work you want first.",
        CleanupWorker,
        off_loop(_cleanup),
    ),
)
