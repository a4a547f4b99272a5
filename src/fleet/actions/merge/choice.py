"""Selection of tasks to merge: resolve names, and find the reasons against each task."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.control.fetch import workspace_here
from fleet.actions.tasks.names import find_exactly
from fleet.core.errors import FleetError, UsageError
from fleet.core.filter import Filter
from fleet.core.finding import Finding
from fleet.core.record import Record
from fleet.core.task import ALREADY_MERGED, MERGED, Status
from fleet.git.commits import is_ancestor, tree_of
from fleet.git.diffs import changed_rules
from fleet.git.repository import Repository, find_repository
from fleet.supervisor.run.work import Work

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from fleet.actions.tasks.names import NameScope
    from fleet.assembly import Fleet
    from fleet.core.receipt import Receipt
    from fleet.core.task import Task
    from fleet.core.workspace import Workspace
    from fleet.git.view import View

AT_ONCE = 4
#: The end of the reason against a branch that changes the rules.
JUDGES = "which decides how work is judged"
MOST = 1000


class Chosen(NamedTuple):
    """The selected tasks, with those named exactly and those matched by a glob."""

    ids: list[str]
    exact: set[str]
    fitting: list[str]


class MergeItem(Record):
    """A task to merge and the state of its work."""

    task: Task
    space: Workspace | None
    receipt: Receipt | None
    tip: str | None  # the commit of its branch
    why_not: str = ""  # why it cannot be merged
    asks: str = ""  # why merging it needs the user's explicit consent

    @property
    def changes_rules(self) -> bool:
        """Return True if it changes the rules that judge work. Then a verification proves little."""
        return self.asks.endswith(JUDGES)


def choose(fleet: Fleet, names: Iterable[str], scope: NameScope) -> Chosen:
    """Return the tasks selected by IDs, branches, batches or globs. Raises TaskNotFound and UsageError."""
    ids: dict[str, None] = {}
    fitting: dict[str, None] = {}
    exact: set[str] = set()
    for name in names:
        if members := _batch(fleet, name, scope):
            ids |= dict.fromkeys(members)
            continue
        named, fits = find_exactly(fleet, [name], scope=scope)
        ids |= dict.fromkeys([*named, *fits])
        exact |= set(named)
        fitting |= dict.fromkeys(fits)
    return Chosen(list(ids), exact, list(fitting))


def items_of(fleet: Fleet, task_ids: Sequence[str]) -> list[Task]:
    """Return the tasks, oldest first. Raises UsageError if there are too many to merge at once."""
    if len(task_ids) > MOST:
        raise UsageError(f"{len(task_ids)} tasks are too many to merge at once", hint=f"pass at most {MOST}")
    return fleet.store.tasks.find(Filter(ids=tuple(task_ids)), sort="oldest")


def repository_of(fleet: Fleet, tasks: Sequence[Task]) -> Repository:
    """Return the repository of all tasks. Raises UsageError if there are several, and FleetError if there is none."""
    found: dict[str, Repository] = {}
    for task in tasks:
        space = workspace_here(fleet, task)
        if space is not None:
            found.setdefault(space.common, Repository(top=space.repo, common=space.common))
        elif task.repo and task.branch:
            repository = find_repository(task.repo)
            found.setdefault(repository.common, repository)
    if not found:
        raise FleetError(
            "none of these tasks has a branch", hint="run `fleet list --all` to show the tasks with branches"
        )
    if len(found) > 1:
        tops = ", ".join(sorted(each.top for each in found.values()))
        raise UsageError(f"the tasks belong to several repositories: {tops}", hint="pass names of one repository")
    return next(iter(found.values()))


def look(fleet: Fleet, view: View, tasks: Sequence[Task], onto: str) -> list[MergeItem]:
    """Return each task's state and the reasons against merging it. `onto` is the commit to merge into."""
    live = {run.task_id for run in fleet.store.runs.live()}
    spaces = [workspace_here(fleet, task) for task in tasks]
    receipts = [next(reversed(fleet.store.receipts.of_task(task.id)), None) for task in tasks]
    names = [f"refs/heads/{task.branch}" if task.branch else "refs/heads/fleet/none" for task in tasks]
    tips = view.resolve(*names)
    rows = zip(tasks, spaces, receipts, tips, strict=True)
    items = [MergeItem(task=task, space=space, receipt=receipt, tip=tip) for task, space, receipt, tip in rows]

    def judge(item: MergeItem) -> MergeItem:
        if why := _against(view, item, onto, live):
            return item.replace(why_not=why)
        if why := _uncommitted(fleet, item):
            return item.replace(why_not=why)
        return item.replace(asks=changes_rules(view, onto, item.tip or "") or _unproven(item))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(judge, items))


def allowed(items: Sequence[MergeItem], exact: Collection[str], *, unverified: bool) -> list[MergeItem]:
    """Return the items, with a reason against each unproven item.

    Unproven work is merged only with `unverified` and if its task was named exactly.
    """
    return [item if not item.asks or item.why_not else _decided(item, exact, unverified) for item in items]


def changes_rules(view: View, onto: str, tip: str) -> str:
    """Return a sentence if a branch changes the rules that judge work, else ""."""
    files = changed_rules(view, onto, tip)
    return f"it changes {', '.join(files[:3])}, {JUDGES}" if files else ""


def merged_of(task: Task) -> dict[str, str]:
    """Return the record of the task's merge from its metadata."""
    told = task.metadata.get(MERGED)
    if not isinstance(told, dict):
        return {}
    return {name: value for name, value in told.items() if isinstance(value, str)}


def _decided(item: MergeItem, exact: Collection[str], unverified: bool) -> MergeItem:
    if unverified and item.task.id in exact:
        return item
    how = "pass --unverified to verify and merge it" if item.task.id in exact else "name it and pass --unverified"
    return item.replace(why_not=f"{item.asks}; {how}")


def _batch(fleet: Fleet, name: str, scope: NameScope) -> list[str]:
    """Return the tasks of a batch. Return [] if the name is the ID of a task or a branch."""
    if fleet.store.tasks.find(Filter(ids=(name,)), sort="id", limit=1):
        return []
    members = fleet.store.tasks.find(Filter(batch=name), sort="oldest") if name else []
    if not members or fleet.store.tasks.find(Filter(branch=name, repo=scope.repo), sort="id", limit=1):
        return []
    return [task.id for task in members]


def _against(view: View, item: MergeItem, onto: str, live: Collection[str]) -> str:
    task = item.task
    if task.id in live or task.is_supervised:
        return "its agent is working"
    if not task.branch:
        return "it has no branch"
    if item.tip is None:
        return f"its branch {task.branch} is gone"
    if task.status != Status.CLOSED:
        return f"it is {task.status}" + (f": {task.reason}" if task.reason else "")
    told = merged_of(task)
    if told.get("tip") == item.tip and _is_in(view, told.get("commit", ""), onto):
        return f"{ALREADY_MERGED} as {told['commit'][:10]}"
    if task.finding not in ("", Finding.VERIFIED, Finding.UNVERIFIED):
        return f"its work is {task.finding}" + (f": {task.reason}" if task.reason else "")
    return ""


def _unproven(item: MergeItem) -> str:
    """Return why the work counts as unproven. Return "" if it is verified at the branch's current commit."""
    if item.task.finding != Finding.VERIFIED:
        return "its work is not verified"
    if item.receipt is None:
        return "it has no receipt"
    shown = item.receipt.told.get("pieces", {}).get("git", {})
    if item.receipt.finding != Finding.VERIFIED or not isinstance(shown, dict) or shown.get("tip") != item.tip:
        return "its branch moved since it was verified"
    return ""


def _uncommitted(fleet: Fleet, item: MergeItem) -> str:
    """Return why the worktree differs from the branch or cannot be read, or ""."""
    if item.space is None or item.space.is_gone or item.space.branch != item.task.branch:
        return ""
    work = Work(fleet.home, item.space)
    try:
        clean = item.tip is not None and work.tree() == tree_of(work.view, item.tip)
    except (FleetError, OSError) as error:
        return f"its worktree cannot be read: {error}"
    return "" if clean else f"its worktree {item.space.path} has uncommitted changes"


def _is_in(view: View, commit: str, onto: str) -> bool:
    found = view.commit_of(commit) if commit.isalnum() else None
    return found is not None and is_ancestor(view, found, onto)
