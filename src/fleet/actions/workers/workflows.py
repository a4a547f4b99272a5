"""Existing workflows: their status, derived from their tasks, and how to wait for, cancel and clean them up."""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.control import supervisor
from fleet.actions.tasks import questions
from fleet.actions.worktrees import agents, removal
from fleet.core.errors import BadInput, IllegalMove, UsageError
from fleet.core.filter import Filter
from fleet.core.task import RESOLVED, Status
from fleet.core.workflow import STOPPED_WITH_ALL, plan_in, was_stopped
from fleet.supervisor.run.stage import has_failed
from fleet.workflows.ids import is_workflow

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping
    from typing import Any

    from fleet.actions.worktrees.removal import Removal
    from fleet.assembly import Fleet
    from fleet.core.run import Run
    from fleet.core.task import Caller, Task
    from fleet.core.workflow import Result, Stage, Workflow, WorkflowPlan
    from fleet.core.workspace import Workspace

MOST_LISTED, MOST_SHOWN = 1000, 5
#: How long cleanup waits for a workflow's agents to exit.
END_SECONDS = 30.0
PAUSE_SECONDS = 0.1
#: How often to check that a supervisor still runs.
HOLDER_SECONDS = 2.0


class StageState:
    """The states of a stage."""

    WAITING = "waiting"  # for other stages
    READY = "ready"
    RUNNING = "running"
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    STOPPED = "stopped"
    NEEDS_YOU = "needs you"


OVER = (StageState.DONE, StageState.SKIPPED, StageState.FAILED, StageState.STOPPED)
#: codefleet's words for the status of a workflow.
PENDING, RUNNING, SUCCEEDED, FAILED, CANCELLED = STATUSES = ("pending", "running", "succeeded", "failed", "cancelled")


class StageView(NamedTuple):
    """A stage with its task and its state."""

    stage: Stage
    task_id: str
    task: Task | None  # None: the task was deleted
    state: str
    reason: str
    result: Result | None
    run: Run | None  # the live run

    def view(self) -> dict[str, Any]:
        task, body = self.task, self.result.told if self.result else {}
        return {
            "name": self.stage.name,
            "task": self.task_id,
            "state": self.state,
            "reason": self.reason or None,
            "coder": task.coder if task else self.stage.coder,
            "model": (task.model if task else self.stage.model) or None,
            "branch": task.branch if task else None,
            "needs": list(self.stage.needs),
            "run": self.run.id if self.run else None,
            "finding": (task.finding or None) if task else None,
            "summary": body.get("summary"),
        }


class Flow(NamedTuple):
    """A workflow with all its stages, in the order of its plan."""

    workflow: Workflow
    plan: WorkflowPlan
    stages: list[StageView]

    @property
    def status(self) -> str:
        states = [seen.state for seen in self.stages]
        if any(state not in OVER for state in states):
            began = any(state in (StageState.RUNNING, StageState.NEEDS_YOU) or state in OVER for state in states)
            return RUNNING if began else PENDING
        if any(seen.state == StageState.STOPPED and seen.reason == STOPPED_WITH_ALL for seen in self.stages):
            return CANCELLED
        if any(seen.state == StageState.FAILED and not seen.stage.may_fail for seen in self.stages):
            return FAILED
        return CANCELLED if StageState.STOPPED in states else SUCCEEDED

    @property
    def is_over(self) -> bool:
        return self.status in (SUCCEEDED, FAILED, CANCELLED)

    def rests(self, asking: Container[str] = ()) -> bool:
        """Return True if it has finished or waits for an answer. `asking` names tasks with an open question."""
        asks = [seen.state == StageState.NEEDS_YOU or seen.task_id in asking for seen in self.stages]
        going = (seen for seen, waits in zip(self.stages, asks, strict=True) if not waits)
        return self.is_over or (
            any(asks) and all(seen.state not in (StageState.RUNNING, StageState.READY) for seen in going)
        )

    @property
    def last(self) -> StageView:
        """Return the final copy of the last stage, for a stage that loops or fans out over items.

        It is the last round that was not skipped of the last item with such a round, else the first copy. The last
        stage is the one written last in the file among the stages that no other stage needs.
        """
        needed = {need for stage in self.plan.stages for need in stage.needs}
        end = max((stage for stage in self.plan.stages if stage.name not in needed), key=lambda stage: stage.index)
        copies = [seen for seen in self.stages if seen.stage.index == end.index]
        items = sum(seen.stage.round == 1 for seen in copies)  # the plan lists the copies round by round
        by_item = [seen for item in range(items) for seen in copies[item::items]]
        return next((seen for seen in reversed(by_item) if seen.state != StageState.SKIPPED), copies[0])

    @property
    def trouble(self) -> str:
        """Return the reason of the first stage that failed, or the reason of the cancellation.

        Return "" if neither exists.
        """
        for seen in self.stages:
            if seen.state == StageState.FAILED and not seen.stage.may_fail and not seen.reason.startswith(BECAUSE):
                return f"stage {seen.stage.name} failed: {seen.reason}"
        return self.workflow.reason if self.status == CANCELLED else ""

    def view(self) -> dict[str, Any]:
        made = self.workflow
        return {
            "id": made.id,
            "name": made.name,
            "status": self.status,
            "reason": self.trouble or None,
            "repo": made.repo,
            "prompt": made.task_prompt,
            "made_at": made.made_at.isoformat(timespec="seconds"),
            "made_by": made.made_by,
            "cleaned_at": made.cleaned_at.isoformat(timespec="seconds") if made.cleaned_at else None,
            "stages": [seen.view() for seen in self.stages],
        }


BECAUSE = "because "


def flow(fleet: Fleet, workflow_id: str) -> Flow:
    """Return a workflow. Raises WorkflowNotFound."""
    with fleet.store.snapshot():
        return _seen(fleet, fleet.store.workflows.get(workflow_id))


def meant(fleet: Fleet, said: str) -> Flow:
    """Return the workflow with this id, or the only one whose id starts with it.

    Raises WorkflowNotFound, and UsageError if several match.
    """
    if not is_workflow(said):
        kept = fleet.store.workflows.newest(limit=MOST_LISTED)
        fitting = [each.id for each in kept if said and each.id.startswith(said)]
        if len(fitting) > 1:
            shown = ", ".join(fitting[:MOST_SHOWN]) + (" …" if len(fitting) > MOST_SHOWN else "")
            raise UsageError(f"{said!r} matches {len(fitting)} workflows: {shown}", hint="type more of the id")
        said = fitting[0] if fitting else said
    return flow(fleet, said)


def flows(fleet: Fleet, statuses: Iterable[str] | None = None, *, limit: int = 25) -> list[Flow]:
    """Return the newest workflows, newest first. With statuses, return only those in one of them. Raises BadInput."""
    wanted = None if statuses is None else set(statuses)
    if unknown := sorted((wanted or set()) - set(STATUSES)):
        raise BadInput(f"unknown status {unknown[0][:40]!r}", hint=f"pass one of these: {', '.join(STATUSES)}")
    if not 1 <= limit <= MOST_LISTED:
        raise BadInput(f"limit {limit} is out of range", hint=f"pass 1 to {MOST_LISTED}")
    with fleet.store.snapshot():
        kept = fleet.store.workflows.newest(limit=limit if wanted is None else MOST_LISTED)
        found = (_seen(fleet, workflow) for workflow in kept)
        return list(islice((flow for flow in found if wanted is None or flow.status in wanted), limit))


def current(fleet: Fleet) -> list[Flow]:
    """Return the workflows that are not over, or else the newest workflow."""
    return [flow for flow in flows(fleet, limit=MOST_LISTED) if not flow.is_over] or flows(fleet, limit=1)


def wait(fleet: Fleet, workflow_id: str, *, tell: Callable[[Flow], None]) -> Flow:
    """Wait until a workflow finishes or needs an answer. Call `tell` after each check."""
    looked = time.monotonic()
    while True:
        found = flow(fleet, workflow_id)
        tell(found)
        if found.rests({each.task_id for each in fleet.store.questions.find(unanswered=True)}):
            return found
        if time.monotonic() - looked > HOLDER_SECONDS:
            looked = time.monotonic()
            supervisor.ensure(fleet.home)  # the earlier supervisor may have been killed
        time.sleep(PAUSE_SECONDS)


def results_view(found: Flow) -> dict[str, Any]:
    stages = [
        {
            "name": seen.stage.name,
            "task": seen.task_id,
            "state": seen.state,
            "reason": seen.reason or None,
            "made_by": seen.result.made_by if seen.result else None,
            "result": seen.result.told if seen.result else None,
        }
        for seen in found.stages
    ]
    return {"id": found.workflow.id, "name": found.workflow.name, "status": found.status, "stages": stages}


def cancel(fleet: Fleet, workflow_id: str, *, caller: Caller | None = None) -> Flow:
    """Stop all unfinished stages.

    Finished work stays. Raises WorkflowNotFound, and IllegalMove if the workflow has finished.
    """
    with fleet.store.atomic():
        found = flow(fleet, workflow_id)
        own(found.workflow, caller, "cancel")
        if found.is_over:
            raise IllegalMove(
                f"workflow {workflow_id} is already {found.status}",
                hint=f"run `fleet workflow cleanup {workflow_id}` to remove its worktrees",
            )
        going = [seen.task_id for seen in found.stages if seen.state == StageState.NEEDS_YOU or _goes_on(seen.task)]
        agents.kill(fleet, going, reason=STOPPED_WITH_ALL)
        questions.withdraw(fleet, going)
        fleet.store.workflows.stop(workflow_id, STOPPED_WITH_ALL, fleet.store.now())
    return flow(fleet, workflow_id)


def cleanup(fleet: Fleet, workflow_id: str, *, with_branches: bool, caller: Caller | None = None) -> list[Removal]:
    """Save what only the worktrees of a finished workflow hold, then remove them.

    Raises WorkflowNotFound, and IllegalMove if the workflow is not over.
    """
    found = flow(fleet, workflow_id)
    own(found.workflow, caller, "clean up after")
    if not found.is_over:
        raise IllegalMove(
            f"workflow {workflow_id} is {found.status}: it cannot be cleaned up",
            hint=f"`fleet workflow cancel {workflow_id}`, or wait",
        )
    ids = [space.task_id for space in worktrees(fleet, found)]
    removal.wait_for_end(fleet, ids, END_SECONDS)
    done = removal.remove(fleet, ids, with_branch=with_branches)
    removal.sweep(done, fleet)
    if all(each.removed for each in done):
        fleet.store.workflows.mark_cleaned(workflow_id, fleet.store.now())
    return done


def worktrees(fleet: Fleet, found: Flow) -> list[Workspace]:
    """Return the worktrees of the stages that still exist."""
    spaces = [fleet.store.workspaces.get(seen.task_id) for seen in found.stages]
    return [space for space in spaces if space is not None and not space.is_gone]


def own(workflow: Workflow, caller: Caller | None, doing: str) -> None:
    """Raise IllegalMove if the caller is a run whose task did not make the workflow."""
    if caller is not None and caller.task_id != workflow.caller:
        raise IllegalMove(
            f"an agent may not {doing} {workflow.id}: {caller.task_id} did not create it",
            hint="ask a person to do that",
        )


def _goes_on(task: Task | None) -> bool:
    return task is not None and not task.is_at_rest


def _seen(fleet: Fleet, workflow: Workflow) -> Flow:
    plan, stages = plan_in(workflow.plan), fleet.store.workflows.stages(workflow.id)
    ids = tuple(stage.task_id for stage in stages)
    tasks = {task.id: task for task in fleet.store.tasks.find(Filter(ids=ids), sort="id")} if ids else {}
    asked = {each.task_id for each in fleet.store.questions.find(unanswered=True)}
    live = {run.task_id: run for run in fleet.store.runs.live()}
    results = fleet.store.results.find(ids)
    by_name = {stage.name: stage for stage in plan.stages}
    found: dict[str, StageView] = {}
    for stage in stages:  # a stage comes after the stages that it needs
        task = tasks.get(stage.task_id)
        state, reason = _state(task, results.get(stage.task_id), stage.task_id in asked)
        seen = StageView(
            by_name[stage.name], stage.task_id, task, state, reason, results.get(stage.task_id), live.get(stage.task_id)
        )
        found[stage.name] = _after(seen, found)
    return Flow(workflow, plan, list(found.values()))


def _state(task: Task | None, result: Result | None, asks: bool) -> tuple[str, str]:
    """Return the state of a stage without regard to other stages, and the reason."""
    if task is None:
        return StageState.STOPPED, "its task was deleted"
    if task.status == Status.IN_PROGRESS or task.is_supervised:
        return StageState.RUNNING, ""
    if task.status in RESOLVED:
        if has_failed(task):
            return StageState.FAILED, task.close_reason
        is_skipped = result is not None and result.told.get("status") == "skipped"
        return (
            (StageState.SKIPPED, task.close_reason.removeprefix("skipped: ")) if is_skipped else (StageState.DONE, "")
        )
    if task.status == Status.BLOCKED:
        if asks:
            return StageState.NEEDS_YOU, task.reason
        return StageState.STOPPED if was_stopped(task) else StageState.FAILED, task.reason
    return StageState.READY, task.reason


def _after(seen: StageView, found: Mapping[str, StageView]) -> StageView:
    """Return a stage with the state that follows from the stages it needs."""
    if seen.state != StageState.READY:
        return seen
    needed = [found[need] for need in seen.stage.needs if need in found]
    for need in needed:
        if need.state == StageState.FAILED and not (need.task is not None and need.task.status in RESOLVED):
            why = (
                need.reason if need.reason.startswith(BECAUSE) else f"{BECAUSE}{need.stage.name} failed: {need.reason}"
            )
            return seen._replace(state=StageState.FAILED, reason=why)
        if need.state == StageState.STOPPED:
            return seen._replace(state=StageState.STOPPED, reason=f"{need.stage.name} was stopped")
    if any(need.state not in OVER for need in needed):
        return seen._replace(state=StageState.WAITING, reason="")
    return seen
