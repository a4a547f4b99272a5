"""What every history asks of a new workspace, of one that changes, and of one that goes."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from fleet.core.errors import BadInput, BranchTaken, IllegalMove, WorkspaceNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from fleet.core.workspace import Workspace

    #: Chooses the first port of a free block, given every port that is leased; 0: none.
    Ports = Callable[[frozenset[int]], int]

_NAMES = ("repo", "common", "path", "branch", "base")


def reused(kept: Workspace | None) -> Workspace | None:
    """The workspace that a task goes on in, if it has one. Raises IllegalMove when that one is being removed."""
    if kept is None or kept.is_gone:
        return None
    if kept.removing_at is not None:
        hint = f"`fleet kill {kept.task_id}` brings that to an end; `fleet retry {kept.task_id}` then makes a new one."
        raise IllegalMove(f"the worktree of {kept.task_id} is being removed", hint=hint)
    return kept


def refuse_taken(workspace: Workspace, others: Iterable[Workspace]) -> None:
    """Raise BranchTaken when the branch or the place is that of another task's workspace that is not gone."""
    for other in others:
        if (other.common, other.branch) == (workspace.common, workspace.branch):
            raise BranchTaken(workspace.branch, other.task_id)
        if other.path == workspace.path:
            raise BranchTaken(workspace.branch, other.task_id, path=workspace.path)


def with_ports(workspace: Workspace, choose: Ports | None, blocks: Iterable[range]) -> Workspace:
    """The workspace with its block of ports, which nobody else has. Raises IllegalMove where one was chosen that is.

    `blocks` are those of the workspaces that are not gone.
    """
    leased = frozenset(chain.from_iterable(blocks))
    chosen = workspace if choose is None else workspace.replace(first_port=choose(leased))
    for port in chosen.ports:
        if port in leased:
            raise IllegalMove(f"port {port} is leased to another agent", hint="`[ports]` says where blocks begin.")
    return chosen


def changed(kept: Workspace | None, workspace: Workspace) -> Workspace:
    """The workspace on record with what became of it, but neither moved nor un-removed. Raises WorkspaceNotFound."""
    # A workspace that was removed and leased anew is another one: late words about the first must not reach it.
    if kept is None or kept.is_gone or kept.made_at != workspace.made_at:
        raise WorkspaceNotFound(workspace.task_id)
    return kept.replace(
        base=workspace.base,
        base_commit=workspace.base_commit,
        made_branch=workspace.made_branch,
        ready_at=workspace.ready_at,
        saved=workspace.saved,
        notes=workspace.notes,
    )


def going(kept: Workspace | None, task_id: str, now: datetime, *, worked_on: bool) -> Workspace:
    """The workspace with its removal begun; the first beginning stays. Raises WorkspaceNotFound, IllegalMove."""
    if kept is None or kept.is_gone:
        raise WorkspaceNotFound(task_id)
    if worked_on:
        raise IllegalMove(f"{task_id} is being worked on", hint=f"`fleet kill {task_id}` stops its agent first.")
    return kept.replace(removing_at=kept.removing_at or now)


def staying(kept: Workspace | None, task_id: str) -> Workspace:
    """The workspace with its removal taken back; one that is gone stays so. Raises WorkspaceNotFound."""
    if kept is None:
        raise WorkspaceNotFound(task_id)
    return kept if kept.is_gone else kept.replace(removing_at=None)


def gone(kept: Workspace | None, task_id: str, saved: str, now: datetime) -> Workspace:
    """The workspace removed; one that is gone stays as it is. Raises WorkspaceNotFound, IllegalMove."""
    if kept is None:
        raise WorkspaceNotFound(task_id)
    if kept.is_gone:
        return kept
    if kept.removing_at is None:
        raise IllegalMove(f"the removal of the worktree of {task_id} never began")
    return kept.replace(removed_at=now, saved=saved)


def left(kept: Workspace | None, task_id: str, now: datetime) -> Workspace:
    """The workspace left behind; one that is gone stays as it is. Raises WorkspaceNotFound."""
    if kept is None:
        raise WorkspaceNotFound(task_id)
    return kept if kept.is_gone else kept.replace(removing_at=kept.removing_at or now, removed_at=now)


def check_names(workspace: Workspace) -> None:
    """Raise BadInput where a name could not be kept as it is."""
    for name in _NAMES:
        check_text(f"the {name} of the worktree", getattr(workspace, name))


def check_trust(kind: str, key: str, value: str) -> None:
    """Raise BadInput where what is trusted could not be told from something else."""
    check_text(f"the {kind} to trust", key)
    check_text(f"what is trusted of the {kind}", value)


def own_key(key: str, mark: Callable[[], str]) -> str:
    """What stands for a key where several hosts keep what they trust: a path means something on one of them alone."""
    return f"{mark()}:{key}" if key.startswith("/") else key


def check_text(what: str, text: str) -> None:
    """Raise BadInput for text that a database cannot keep: two such names could look like one there."""
    if not is_text(text):
        shown = text.encode("utf-8", "backslashreplace").decode()
        raise BadInput(f"{what} is not UTF-8: {shown}", hint="give the folder or branch another name.")


def is_text(text: str) -> bool:
    """Whether text is whole: names from the file system may hold bytes that are no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
