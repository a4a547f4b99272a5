"""Merging tasks' work into a branch: merge without a worktree, verify together, then move the branch once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.merge.choice import items_of, look, repository_of
from fleet.actions.merge.job import (
    WAIT_SECONDS,
    Job,
    LandedWork,
    LeftOutTask,
    MergeOptions,
    MergeRequest,
    MergeResult,
    tip_of,
)
from fleet.actions.merge.records import turn
from fleet.actions.tasks.rights import refuse_agents
from fleet.core.branch import check_branch
from fleet.core.errors import BadInput
from fleet.git.view import View
from fleet.git.worktree_records import head_of
from fleet.proof.verify.commit import wanted_by
from fleet.supervisor.trust import settings_in

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from fleet.actions.merge.choice import MergeItem
    from fleet.assembly import Fleet
    from fleet.core.task import Caller
    from fleet.git.repository import Repository
    from fleet.settings import Settings

__all__ = [
    "WAIT_SECONDS",
    "LandedWork",
    "LeftOutTask",
    "MergeOptions",
    "MergeResult",
    "Unproven",
    "merge",
    "target_of",
    "unproven",
]


def quiet(_: str) -> None:
    """Discard a progress message."""


def merge(
    fleet: Fleet,
    task_ids: Sequence[str],
    terms: MergeOptions | None = None,
    *,
    exact: Collection[str] = (),
    by: str = "fleet",
    caller: Caller | None = None,
    tell: Callable[[str], None] = quiet,
) -> MergeResult:
    """Merge the work of tasks of one repository into its target branch.

    The result gives a reason for each task left out.

    `exact` has the tasks that were named individually. Raises FleetError, UsageError, AnotherMerge; nothing has moved
    then.
    """
    refuse_agents(caller, "merge branches")
    terms = terms or MergeOptions()
    tasks = items_of(fleet, task_ids)
    repository = repository_of(fleet, tasks)
    settings = settings_in(fleet.home, fleet.store, repository.top)
    target = target_of(repository, settings, terms)
    job = Job(fleet, repository, target, terms, settings, MergeRequest(by, tell))
    if terms.dry_run:
        return job.tried(tasks, exact)
    with turn(fleet.home, repository, target, wait=terms.wait, tell=tell):
        return job.done(tasks, exact)


class Unproven(NamedTuple):
    """Tasks that could be merged except that their work is not verified, and how a merge would verify them."""

    items: list[MergeItem]
    target: str
    commands: list[str]

    @property
    def can_be_proven(self) -> bool:
        """Return True if the verification of the merge can prove all of them."""
        return bool(self.commands) and not any(item.changes_rules for item in self.items)


def unproven(fleet: Fleet, task_ids: Sequence[str], terms: MergeOptions, *, exact: Collection[str]) -> Unproven:
    """Return the tasks named exactly whose work is not verified."""
    tasks = items_of(fleet, task_ids)
    repository = repository_of(fleet, tasks)
    settings = settings_in(fleet.home, fleet.store, repository.top)
    target = target_of(repository, settings, terms)
    view = View(fleet.home, repository)
    seen = look(fleet, view, tasks, tip_of(view, target))
    items = [item for item in seen if item.asks and not item.why_not and item.task.id in exact]
    wanted = [wanted_by(settings, item.task) for item in items]
    commands = list(dict.fromkeys(each.command for each in wanted if each))
    return Unproven(items, target, commands if None not in wanted else [])


def target_of(repository: Repository, settings: Settings, terms: MergeOptions) -> str:
    """Return the branch to merge into: the option, the setting, or the main checkout's branch. Raises BadInput."""
    target = terms.into or settings.merge.into or head_of(repository.common)[0] or ""
    if not target:
        raise BadInput(f"{repository.top} is not on a branch", hint="pass --into BRANCH")
    check_branch(target)
    return target
