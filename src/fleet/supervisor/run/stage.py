"""Tasks that are stages of a workflow: their condition, prompt and base, and the effect of their failure.

All of this follows from the stage's own plan and the results that it refers to, never from the whole graph.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.core.filter import Filter
from fleet.core.finding import DONE
from fleet.core.jsontext import encode
from fleet.core.run import Ending
from fleet.core.task import WORKTREE, Status, Verdict
from fleet.core.workflow import CANCEL, CONTINUE, CUT_SHORT, MAY_FAIL, NOT_BEGUN, Result, plan_in, stage_in
from fleet.git.repository import find_repository
from fleet.git.view import View
from fleet.supervisor.run.workplace import NotReady
from fleet.workflows.conditions import is_to_run
from fleet.workflows.ids import task_of
from fleet.workflows.results import MADE_BY, NO_ITEM, REFUSED, NoList, inherits_from, no_item
from fleet.workflows.stage_prompt import prompt_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from fleet.core.run import Outcome, Run
    from fleet.core.task import Claim, Task
    from fleet.core.workflow import Stage
    from fleet.home import Home
    from fleet.hosts.cluster import Cluster
    from fleet.proof.evidence import RunEvidence
    from fleet.store.base import Store
    from fleet.supervisor.context import Context
    from fleet.supervisor.run.live import Live
    from fleet.supervisor.store_calls import StoreCalls


COMPLETED, NO_CHANGES, FAILED, SKIPPED = "completed", "completed_no_changes", "failed", "skipped"
AGENT, FLEET = "agent", "fleet"
MOST_FILES, MOST_ENTRIES = 2_000, 200
LONGEST_SUMMARY, LONGEST_ENTRY = 32_000, 4_000


def body_of(run: Run, outcome: Outcome, found: RunEvidence) -> dict[str, Any]:
    """Return the result of an ended run: files and commits from git, texts from its agent."""
    told, tree = found.result, found.tree
    is_git = tree.files is not None and (tree.kind == WORKTREE or not tree.others)
    files = _paths(change.path for change in tree.files or ()) if is_git else list(told.files_changed if told else ())
    commits = [commit.id for commit in tree.commits] if is_git else list(told.commits if told else ())
    summary = told.summary if told else str(run.notes.get("said") or run.notes.get("text") or outcome.reason)
    body: dict[str, Any] = {
        "summary": summary[:LONGEST_SUMMARY],
        "files_changed": files[:MOST_FILES],
        "tests": list(told.tests if told else ())[:MOST_ENTRIES],
        "commits": commits[:MOST_ENTRIES],
        "next_steps": [step[:LONGEST_ENTRY] for step in (told.next_steps if told else ())][:MOST_ENTRIES],
        "status": _status(outcome, found, changed=bool(files)),
        "finding": outcome.finding,
        "branch": tree.branch or run.branch,
        "commit": tree.tip if is_git and tree.kind == WORKTREE else "",
    }
    if told is None and found.refused:
        body[REFUSED] = found.refused
    if told is not None and is_git:
        body |= _differences(set(map(_plain, told.files_changed)), set(files), run.workspace)
    return body


def keep_result(store: Store, live: Live, outcome: Outcome, found: RunEvidence, *, failed: bool) -> None:
    """Keep the result of a task for the tasks that wait for it. Call this within a transaction."""
    told = body_of(live.run, outcome, found)
    if failed and told["status"] in (COMPLETED, NO_CHANGES):
        told["status"] = FAILED  # regardless of the agent's claim
    body = live.folder.cleaned(told)
    result = Result(
        task_id=live.run.task_id,
        run_id=live.run.id,
        made_at=store.now(),
        made_by=AGENT if found.result is not None else FLEET,
        body=encode(body),
    )
    store.results.keep(result)


def skipped_result(task_id: str, store: Store, *, no_item: bool = False) -> Result:
    """Return the result of a stage that did not run."""
    body = {"status": SKIPPED, **({NO_ITEM: True} if no_item else {})}
    return Result(task_id=task_id, run_id="", made_at=store.now(), made_by=FLEET, body=encode(body))


def _status(outcome: Outcome, found: RunEvidence, *, changed: bool) -> str:
    if outcome.ending not in DONE:
        return FAILED
    if found.tree.files is None:
        return found.result.status if found.result else COMPLETED
    if found.result is not None and found.result.status not in (COMPLETED, NO_CHANGES):
        return found.result.status
    return COMPLETED if changed else NO_CHANGES


def _differences(said: set[str], seen: set[str], top: str) -> dict[str, Any]:
    """Return the claimed files that git does not show. Absolute and relative paths in the worktree count as equal."""
    said = {path.removeprefix(f"{top}/").removeprefix("./") for path in said}
    claimed = sorted(said - seen)[:MOST_ENTRIES]
    return {"claimed_only": claimed} if claimed else {}


def _paths(paths: Iterable[str]) -> list[str]:
    return [_plain(path) for path in paths]


def _plain(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "replace")


#: Endings after which a user decides, even if the stage may fail.
BY_A_PERSON = (Ending.CANCELLED, Ending.INTERRUPTED, Ending.RELEASED)
GOING = (Status.OPEN, Status.DEFERRED, Status.IN_PROGRESS, Status.HOOKED)


class StageSkipped(FleetError):
    """A stage that must not run. Its task is closed instead of started."""

    def __init__(self, why: str, *, no_item: bool = False) -> None:
        super().__init__(why)
        self.no_item = no_item  # True if the list that the stage iterates over has no item for it


async def staged(context: Context, claim: Claim) -> Task:
    """Fill the prompt of a stage that starts for the first time, and set its base. Return the task.

    Raises Skipped if the stage's condition is false. Raises NotReady if the list that it iterates over is unknown.
    Raises BadInput if its plan cannot be read.
    """
    store = context.store
    stage, task_prompt, results = await store.call(_read_stage, store.ports, claim.task)
    try:
        runs, why = is_to_run(stage, results)
    except NoList as error:
        raise NotReady(str(error), hint=error.hint) from error
    if not runs:
        raise StageSkipped(why, no_item=bool(stage.items_of) and why == no_item(stage))
    base = await asyncio.to_thread(_find_base, context.home, context.cluster, claim.task, stage, results)
    said = prompt_of(stage, task_prompt=task_prompt, results=results)
    return await store.call(_save_prompt, store.ports, claim.task.id, stage, said, base)


async def skip(store: StoreCalls, claim: Claim, skipped: StageSkipped) -> Task:
    """Close the task of a stage that does not run, and keep a result for later stages. Raises ClaimLost."""

    def write() -> Task:
        with store.atomic():
            store.results.keep(skipped_result(claim.task.id, store.ports, no_item=skipped.no_item))
            return store.claims.settle(claim, Verdict(status=Status.CLOSED, reason=f"skipped: {skipped}"))

    return await store.call(write)


def judge_stage(store: Store, task: Task, outcome: Outcome, verdict: Verdict) -> Verdict:
    """Return the verdict on a stage. A stage that may fail is closed with its failure, so that later stages start.

    A stage that needs a user stays blocked: the next round would need the same.
    """
    if verdict.status != Status.BLOCKED or outcome.ending in BY_A_PERSON:
        return verdict
    if outcome.says_blocked or _waits_for_answers(store, task):
        return verdict
    found = store.workflows.stage_of(task.id)
    if found is None or not stage_in(found.spec).may_fail:
        return verdict
    return verdict.replace(status=Status.CLOSED, reason=f"{MAY_FAIL}{verdict.reason}")


def has_failed(task: Task) -> bool:
    """Return True if a stage was closed with its failure."""
    return task.status == Status.CLOSED and task.close_reason.startswith(MAY_FAIL)


def is_cut_short(outcome: Outcome | None) -> bool:
    """Return True if a run was stopped with its workflow, not by a user who decides about its work."""
    return outcome is not None and outcome.ending == Ending.CANCELLED and outcome.reason.startswith(CUT_SHORT)


def stop_other_stages(store: Store, task: Task) -> None:
    """Stop the other stages of a workflow if a stage failed and its plan says so.

    Stages that have not begun are blocked. With `cancel` running stages are asked to end. Call this in the transaction
    that settled the stage.
    """
    if task.status != Status.BLOCKED or task.reason.startswith(CUT_SHORT) or _waits_for_answers(store, task):
        return
    on_failure = _on_failure(store, task)
    if on_failure == CONTINUE:
        return
    why = f"{task.stage} failed: {task.reason}"
    ids = tuple(stage.task_id for stage in store.workflows.stages(task.workflow) if stage.task_id != task.id)
    for other in store.tasks.find(Filter(ids=ids, statuses=GOING), sort="id") if ids else ():
        if other.status != Status.IN_PROGRESS and not other.is_claimed and not _has_begun(store, other):
            stopped = other.freed(store.now(), status=Status.BLOCKED)
            store.tasks.save(stopped.replace(reason=f"{NOT_BEGUN} {why}", defer_until=None))
        elif on_failure == CANCEL:
            _cut_short(store, other, f"{CUT_SHORT} {why}")


def _on_failure(store: Store, task: Task) -> str:
    """Return how a failure of a stage affects the others. Old workflows have that only in the whole plan."""
    found = store.workflows.stage_of(task.id)
    said = stage_in(found.spec).on_failure if found else CONTINUE
    return said or plan_in(store.workflows.get(task.workflow).plan).on_failure


def _cut_short(store: Store, task: Task, why: str) -> None:
    """Ask the agent of a stage to end, as `fleet kill` does. Block a stage that waits for a retry."""
    if task.is_supervised or any(run.is_live for run in store.runs.of_task(task.id)):
        store.claims.request_cancel(task.id, why)
    else:
        store.tasks.save(task.freed(store.now(), status=Status.BLOCKED).replace(reason=why, defer_until=None))


def _has_begun(store: Store, task: Task) -> bool:
    return task.started_at is not None and bool(store.runs.of_task(task.id))


def _waits_for_answers(store: Store, task: Task) -> bool:
    return bool(store.questions.find(task_id=task.id, unanswered=True))


def _read_stage(store: Store, task: Task) -> tuple[Stage, str, dict[str, Mapping[str, Any]]]:
    found = store.workflows.stage_of(task.id)
    if found is None:
        raise FleetError(f"{task.id} is not a stage of {task.workflow}", hint="its workflow is not recorded here")
    stage = stage_in(found.spec)
    names = {task_of(found.workflow_id, name): name for name in stage.sources}
    kept = store.results.find(names)
    results: dict[str, Mapping[str, Any]] = {
        names[key]: {**result.told, MADE_BY: result.made_by} for key, result in kept.items()
    }
    return stage, store.workflows.task_prompt(found.workflow_id), results


def _save_prompt(store: Store, task_id: str, stage: Stage, said: str, base: str) -> Task:
    """Save the filled prompt and the base in the task. A description that a user wrote stays."""
    with store.atomic():
        task = store.tasks.get(task_id)
        told = {"description": said} if task.description == stage.prompt else {}
        started = task.replace(**told, **({"base": base} if base else {}))
        if started != task:
            store.tasks.save(started)
        return started


def _find_base(home: Home, cluster: Cluster, task: Task, stage: Stage, results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the tip of the branch that a stage inherits, where the stage starts. Return "" if it inherits none."""
    origin = inherits_from(stage, results)
    if not origin:
        return ""
    body = results[origin]
    if task.travels:
        return cluster.branch_tip(task, str(body["branch"]), str(body.get("commit") or ""))
    view = View(home, find_repository(task.repo or task.cwd))
    tip, kept = view.resolve(f"refs/heads/{body['branch']}", str(body.get("commit") or "HEAD"))
    if tip is None and not body.get("commit"):
        raise FleetError(f"branch {body['branch']!r} of stage {origin} is gone", hint="it was deleted manually")
    return tip or kept or ""
