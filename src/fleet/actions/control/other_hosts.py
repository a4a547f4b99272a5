"""Work and runs of other hosts, as recorded in the shared database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.core.jsontext import encode
from fleet.core.workspace import NOT_SENT, SENT_TO, STAYS, TO_GO, RemovalRequest
from fleet.supervisor.host import is_seen, owner_of, settings_here

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleet.assembly import Fleet
    from fleet.core.host import Host
    from fleet.core.run import Run
    from fleet.core.task import Task
    from fleet.core.workspace import Workspace


def is_elsewhere(fleet: Fleet, owner: str) -> bool:
    """Return True if `owner` is another host."""
    return fleet.store.is_shared and bool(owner) and owner != owner_of(fleet.home, settings_here(fleet.home))


def here(fleet: Fleet, spaces: Iterable[Workspace]) -> list[Workspace]:
    """Return the workspaces on this host's disk."""
    if not fleet.store.is_shared:
        return list(spaces)
    own = owner_of(fleet.home, settings_here(fleet.home))
    return [space for space in spaces if space.lies_on(own)]


def host_of(fleet: Fleet, owner: str) -> Host | None:
    return next((host for host in fleet.store.hosts.all() if host.id == owner), None)


def name_of(fleet: Fleet, owner: str) -> str:
    host = host_of(fleet, owner)
    return host.name if host is not None else owner


def whereabouts(fleet: Fleet, task: Task) -> str:
    """Return whether a task's work has reached its remote, or "" if this does not apply."""
    space = fleet.store.workspaces.get(task.id) if task.remote else None
    if space is None:
        return ""
    told, name = space.made, name_of(fleet, space.host)
    if why := told.get(NOT_SENT):
        return f"not yet, from host {name}: {why}"
    return f"{told[SENT_TO]}, from host {name}" if told.get(SENT_TO) else f"not yet: it is on host {name}"


def ask_to_go(fleet: Fleet, space: Workspace, *, with_branch: bool, without_ignored: bool) -> tuple[str, str]:
    """Ask the host of a worktree to save and remove it.

    Call this function in a transaction, with the current record.
    Return when the host will do it, and why an earlier equal request failed.
    """
    host, name = host_of(fleet, space.host), name_of(fleet, space.host)
    seconds = settings_here(fleet.home).supervisor.claim_seconds
    is_back = host is not None and is_seen(host, fleet.store.now(), seconds)
    if space.is_mirrored:
        return f"host {name} removes its worktree {'' if is_back else 'when it is back, '}once its branch is pushed", ""
    epoch = fleet.store.tasks.get(space.task_id).epoch
    wish = RemovalRequest(epoch=epoch, with_branch=with_branch, without_ignored=without_ignored)
    refused = space.made.get(STAYS) or {}
    words = {**space.made, TO_GO: wish.as_dict(), STAYS: None}
    fleet.store.workspaces.save(space.replace(notes=encode(words)))
    later = f"host {name} saves what only its worktree holds and removes it {'soon' if is_back else 'when it is back'}"
    why = str(refused.get("why") or "") if refused.get("wish") == wish.as_dict() else ""
    return later, f"host {name} could not remove it: {why}" if why else ""


def refuse_elsewhere(fleet: Fleet, run: Run | None, doing: str) -> None:
    """Raise FleetError if a run's agent is on another host and only that host can do this."""
    if run is not None and is_elsewhere(fleet, run.owner):
        name = name_of(fleet, run.owner)
        raise FleetError(f"its agent is on host {name}", hint=f"run `fleet {doing} {run.task_id}` on that host")
