"""Where the work of a task begins on a branch that was there already: what its agent did not do is not its work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.workspaces.commits import is_ancestor

if TYPE_CHECKING:
    from fleet.core.task import Task
    from fleet.core.workspace import Workspace
    from fleet.store.base import Store
    from fleet.workspaces.repository import Repository
    from fleet.workspaces.view import View


def own_beginning(store: Store, repository: Repository, task: Task, last: Workspace | None) -> str:
    """Where the task itself once began on its branch, if nobody else had that since its last worktree; else nothing."""
    if last is None or last.branch != task.branch:
        return ""
    others = store.workspaces.find(common=repository.common, gone=True)
    since = (each for each in others if each.task_id != task.id and each.made_at > last.made_at)
    return "" if any(each.branch == task.branch for each in since) else last.base_commit


def beginning(view: View, tip: str, own: str) -> str:
    """The commit that work on a branch which is there is held against: the task's own beginning, else its tip."""
    if not own or view.resolve(own) == [None] or not is_ancestor(view, own, tip):  # somebody began it anew
        return tip
    return own
