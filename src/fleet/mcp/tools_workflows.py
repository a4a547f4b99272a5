"""codefleet's tools for workflows, with codefleet's names, parameters and answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from fleet.actions.workers import warnings, workflow_create, workflow_views, workflows
from fleet.actions.workers.create import WorkerCreator
from fleet.actions.workers.workflow_create import WorkflowRequest
from fleet.mcp.context import warning
from fleet.mcp.tool import Given, Tool, off_loop

if TYPE_CHECKING:
    from fleet.assembly import Fleet
    from fleet.mcp.context import ToolContext
    from fleet.mcp.tool import Answer, Tell


class CreateWorkflow(Given, frozen=True, kw_only=True):
    """Arguments of a new workflow."""

    name: str
    repo_path: Annotated[str, Meta(description="A checkout of the git repository.")]
    task_prompt: Annotated[str, Meta(description="Replaces {task_prompt} in the stages' templates.")]
    stages: Annotated[
        list[dict[str, Any]],
        Meta(
            description="Each: name, executor, prompt_template, depends_on (names, or numbers from 0), model, "
            "worktree_strategy new|inherit, timeout_seconds, verify, retries, when, repeat, each, reasoning_effort, "
            "extra_args, no_changes, requires (labels of a host), host. Templates may use {task_prompt}, "
            "{stage_N_summary|files|next_steps|status|result} and {stages.NAME.summary}."
        ),
    ]
    base_ref: Annotated[str, Meta(description="The branch, tag or commit to start from.")] = "HEAD"
    timeout_seconds: Annotated[float | None, Meta(description="Time limit of each stage without its own.")] = None
    on_failure: Annotated[
        str,
        Meta(
            description="After a failed stage: continue; stop: start no more stages; cancel: also stop running stages."
        ),
    ] = ""


class OfWorkflow(Given, frozen=True, kw_only=True):
    """The id of one workflow."""

    workflow_id: str


class ListWorkflows(Given, frozen=True, kw_only=True):
    """Filter for the listed workflows."""

    statuses: list[str] | None = None
    limit: int = 25


class CollectWorkflow(OfWorkflow, frozen=True, kw_only=True):
    """The workflow to collect from, and how much of its logs."""

    include_all_stages: bool = False
    include_logs: bool = False


async def _create(desk: ToolContext, given: CreateWorkflow, _tell: Tell) -> Answer:
    found = await desk.ask(lambda fleet: _made(desk, fleet, given))
    desk.see_to_supervisor()
    return desk.warned(found)


def _made(desk: ToolContext, fleet: Fleet, given: CreateWorkflow) -> Answer:
    data: dict[str, Any] = {"name": given.name, "stages": given.stages}
    data |= {"timeout_seconds": given.timeout_seconds} if given.timeout_seconds is not None else {}
    data |= {"on_failure": given.on_failure} if given.on_failure else {}
    plan = workflow_create.plan_in_data(fleet.home, data, cwd=given.repo_path, env=desk.env)
    asked = WorkflowRequest(directory=given.repo_path, prompt=given.task_prompt, base=given.base_ref)
    made = workflow_create.make(fleet, plan, asked, desk.terms, WorkerCreator(desk.by, desk.caller(fleet)))
    flow = workflows.flow(fleet, made.id)
    return workflow_views.view(fleet, flow) | warning(warnings.of_stages(fleet, flow))


def _status(_desk: ToolContext, fleet: Fleet, given: OfWorkflow) -> Answer:
    return workflow_views.view(fleet, workflows.flow(fleet, given.workflow_id))


def _list(_desk: ToolContext, fleet: Fleet, given: ListWorkflows) -> Answer:
    return workflow_views.listed(fleet, given.statuses, given.limit)


def _collect(_desk: ToolContext, fleet: Fleet, given: CollectWorkflow) -> Answer:
    found = workflows.flow(fleet, given.workflow_id)
    return workflow_views.collected(fleet, found, all_stages=given.include_all_stages, logs=given.include_logs)


def _cancel(desk: ToolContext, fleet: Fleet, given: OfWorkflow) -> Answer:
    return workflow_views.view(fleet, workflows.cancel(fleet, given.workflow_id, caller=desk.caller(fleet)))


def _cleanup(desk: ToolContext, fleet: Fleet, given: OfWorkflow) -> Answer:
    caller = desk.caller(fleet)
    done = workflows.cleanup(fleet, given.workflow_id, with_branches=True, caller=caller)
    return workflow_views.cleaned(given.workflow_id, done)


TOOLS = (
    Tool(
        "create_workflow",
        "Start several agents as stages that depend on each other, each on its own branch and git worktree. "
        "Prompts can include the results of earlier stages. Returns at once.",
        CreateWorkflow,
        _create,
    ),
    Tool(
        "get_workflow_status",
        "Show the state of a workflow and its stages.",
        OfWorkflow,
        off_loop(_status),
        reads_only=True,
    ),
    Tool(
        "list_workflows",
        "List the newest workflows. Statuses: pending, running, succeeded, failed, cancelled.",
        ListWorkflows,
        off_loop(_list),
        reads_only=True,
    ),
    Tool(
        "cancel_workflow",
        "Stop a workflow: stop its agents and start no more stages. Finished work is kept.",
        OfWorkflow,
        off_loop(_cancel),
    ),
    Tool(
        "collect_workflow_result",
        "Get the result of a workflow's last stage, or of all stages: summary, files_changed, next_steps, branch …",
        CollectWorkflow,
        off_loop(_collect),
        reads_only=True,
    ),
    Tool(
        "cleanup_workflow",
        "Remove the worktrees and branches of a finished workflow. Uncommitted changes and the tips are kept under "
        "refs/fleet; the answer names the refs. Merge the work you want first.",
        OfWorkflow,
        off_loop(_cleanup),
    ),
)
