"""New receipts for existing work: fleet verifies a branch again at its current commit and records the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.actions.proof import pick
from fleet.actions.proof.candidates import Candidate, Field
from fleet.actions.tasks import tasks
from fleet.core.errors import FleetError, TaskNotFound
from fleet.core.finding import NEEDS_PERSON, Finding
from fleet.core.receipt import RECHECK, Receipt, draft_receipt
from fleet.core.task import WORKTREE
from fleet.core.task_status import blocking_finding
from fleet.core.verification import VerifyRequest
from fleet.git.diffs import DiffSize
from fleet.git.repository import find_repository
from fleet.git.view import View
from fleet.git.work_done import count_commits, file_changes, newest_commits, only_blank
from fleet.git.worktree_records import head_of
from fleet.proof.tree import TreeEvidence
from fleet.proof.verify.commit import NOT_RUN
from fleet.supervisor.host import owner_of, settings_here

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from fleet.actions.proof.ranking import RankedCandidate
    from fleet.assembly import Fleet
    from fleet.core.task import Task
    from fleet.core.verification import Verification

#: After these findings the agent had said that it is done, so work that passes now is done.
WAS_DONE = (Finding.FAILED_VERIFY, Finding.UNVERIFIED)


def verify_again(
    fleet: Fleet, field: Field, command: str = "", *, by: str, tell: Callable[[RankedCandidate], None]
) -> list[RankedCandidate]:
    """Verify each candidate with the given command or its own, and record a receipt for each.

    Raises FleetError if a candidate has no verify command. Then nothing was run.
    """
    alone = [field.replace(candidates=(each,)) for each in field.candidates]
    plans = [pick.plan_for(fleet, each, command) for each in alone]
    for each, plan in zip(field.candidates, plans, strict=True):
        if plan.wanted is None:
            raise FleetError(f"{each.name}: {plan.why_not}", hint="pass --verify CMD, or set `verify.command`.")
    found = []
    for single, plan in zip(alone, plans, strict=True):
        found += pick.pick(fleet, single, plan, jobs=1, tell=tell).entries
        record(fleet, field.view, found[-1:], by=by, closes=not command)
    return found


def try_command(fleet: Fleet, top: str, command: str, use: tuple[str, ...], *, seconds: float) -> Verification | None:
    """Run a command once at the commit of a checkout, as a verification would. Return None if there is no commit."""
    repository = find_repository(top)
    view = View(fleet.home, repository)
    branch, commit = head_of(repository.common)
    tip = (view.tip_of(branch) if branch else commit) or ""
    if not tip:
        return None
    alone = Candidate(name=branch or tip[:10], branch=branch or "", tip=tip, base=tip, size=DiffSize())
    plan = pick.VerificationPlan(VerifyRequest(command=command, seconds=seconds, use=use), ())
    return (
        pick.pick(fleet, Field(view=view, candidates=(alone,)), plan, jobs=1, tell=lambda _: None)
        .entries[0]
        .verification
    )


def record(fleet: Fleet, view: View, entries: Sequence[RankedCandidate], *, by: str, closes: bool = False) -> None:
    """Record a receipt for each verified candidate that belongs to a task, as the last receipt of the task.

    With `closes`, a task that was blocked because its work was not proven is closed if the work is verified now.
    Candidates that could not be verified, or whose agent works again, are skipped.
    """
    shown = [
        (each, _pieces(view, each, by))
        for each in entries
        if each.candidate.task and each.verification and _says_something(each.verification)
    ]
    owner = owner_of(fleet.home, settings_here(fleet.home))
    with fleet.store.atomic():
        live = {run.task_id for run in fleet.store.runs.live()}
        for each, pieces in shown:
            task = _current(fleet, each.candidate)
            if task is not None and task.id not in live and not task.is_supervised:
                _keep(fleet, task, each, pieces, owner)
                _settle(fleet, task, each, by, closes=closes)


def _says_something(made: Verification) -> bool:
    """Return True if a verification is about the work. It is not if the command could not run at all."""
    return not (made.why.startswith(NOT_RUN) or made.setup or made.lacks)


def _current(fleet: Fleet, candidate: Candidate) -> Task | None:
    assert candidate.task is not None
    try:
        return fleet.store.tasks.get(candidate.task.id)
    except TaskNotFound:
        return None


def _keep(fleet: Fleet, task: Task, entry: RankedCandidate, pieces: dict[str, Any], owner: str) -> None:
    store, candidate = fleet.store, entry.candidate
    number = 1 + sum(RECHECK in each.run_id for each in store.receipts.of_task(task.id))
    store.receipts.keep(
        Receipt(
            run_id=f"{task.id}{RECHECK}{number}",
            task_id=task.id,
            owner=owner,
            coder=candidate.coder,
            model=candidate.model,
            finding=entry.finding,
            made_at=store.now(),
            body=draft_receipt(entry.finding, entry.shown, pieces),
        )
    )


def _settle(fleet: Fleet, task: Task, entry: RankedCandidate, by: str, *, closes: bool) -> None:
    """Give the task the new finding. A task that a person must judge gets the new reason, or is closed."""
    waits = blocking_finding(task) in WAS_DONE
    reason = task.reason
    if waits and entry.finding in NEEDS_PERSON:
        reason = f"{NEEDS_PERSON[entry.finding]}: {'; '.join(entry.shown)}"
    fleet.store.tasks.save(task.replace(finding=entry.finding, reason=reason, updated_at=fleet.store.now()))
    if waits and closes and entry.finding == Finding.VERIFIED:
        tasks.close(fleet.store, task.id, "verified again", actor=by, force=True)


def _pieces(view: View, entry: RankedCandidate, by: str) -> dict[str, Any]:
    """Return the pieces of the last receipt with the new verification, and the branch as it is now."""
    candidate, made = entry.candidate, entry.verification
    assert made is not None
    before: dict[str, Any] = dict((candidate.receipt.told.get("pieces") or {}) if candidate.receipt else {})
    git = dict(candidate.piece("git")) if candidate.is_current else _git(view, candidate)
    run = candidate.runs[-1].id if candidate.runs else ""
    again = {"run": run, "by": by}
    return before | {"git": git, "verify": made.as_dict(), "base": {"status": made.base_status}, "recheck": again}


def _git(view: View, candidate: Candidate) -> dict[str, Any]:
    base, tip = candidate.base, candidate.tip
    files = file_changes(view, base, tip) if base != tip else []
    made = TreeEvidence(kind=WORKTREE, view=view, branch=candidate.branch, base=base, tip=tip, files=tuple(files))
    if base == tip:
        return made.piece()
    commits, count = tuple(newest_commits(view, base, tip)), count_commits(view, base, tip)
    return made.replace(count=count, commits=commits, blank=only_blank(view, base, tip, files)).piece()
