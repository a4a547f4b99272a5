"""Removing what is kept for some time only: raw output of ended runs, worktrees of finished tasks, what was saved."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.elsewhere import here
from fleet.actions.gc_worktrees import collect
from fleet.actions.rights import refuse_agents
from fleet.config import load
from fleet.engine.retention import due_before, sweep_all
from fleet.engine.tidying import tidy

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from fleet.actions.gc_worktrees import Old
    from fleet.assembly import Fleet
    from fleet.core.task import Caller
    from fleet.engine.retention import Removed


class Collected(NamedTuple):
    """What `gc` removed, or with `dry_run` would remove."""

    removed: Removed
    raw_days: int
    before: datetime
    dry_run: bool
    old: list[Old]

    def view(self) -> dict[str, Any]:
        """What every face shows of it, as plain data."""
        told = {"dry_run": self.dry_run, "raw_days": self.raw_days, "before": self.before.isoformat(timespec="seconds")}
        return told | self.removed.as_dict() | {"worktrees": [each.view() for each in self.old]}


def gc(fleet: Fleet, *, dry_run: bool = False, finished: bool = False, caller: Caller | None = None) -> Collected:
    """Remove raw output of runs that ended more than `raw_days` ago, worktrees that nobody needs, old saved work."""
    refuse_agents(caller, "remove raw output or worktrees")
    days = load(fleet.home, env={}, lenient=True).supervisor.raw_days
    before = due_before(fleet.store.now(), days)
    removed = sweep_all(fleet.home, fleet.store, before=before, dry_run=dry_run)
    old = collect(fleet, dry_run=dry_run, finished=finished)
    if not dry_run:
        tidy(fleet.home, here(fleet, fleet.store.workspaces.find(gone=True)))
    return Collected(removed, days, before, dry_run, old)
