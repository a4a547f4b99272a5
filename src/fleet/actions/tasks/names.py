"""The meaning of names in commands: a task's exact id, a branch of the current repository, or a glob over either."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING

from fleet.actions.tasks.tasks import find_id
from fleet.core.branch import aliases_of
from fleet.core.errors import AmbiguousId, FleetError, TaskNotFound, UsageError
from fleet.core.filter import Filter
from fleet.core.task import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fleet.assembly import Fleet
    from fleet.core.task import Task

WILD = frozenset("*?[")
MOST_SHOWN = 5
#: The hint for names that fit no task. Most users who name a branch look for an agent.
HINT = "run `fleet list --all` to show the agents and their branches, or `fleet bd list --all` to show the whole queue"
#: A task with one of these statuses may have left its branch to another task.
OVER = (Status.CLOSED, Status.BLOCKED)


class NameScope:
    """The repository whose branches are meant: that of a directory, or every repository."""

    def __init__(self, directory: str | None = None) -> None:
        self._directory = directory

    def has(self, task: Task) -> bool:
        """Return True if a glob over branches may match this task."""
        return task.repo == self.repo if self.repo else self._directory is None

    @cached_property
    def repo(self) -> str | None:
        """Return the main checkout of the repository. Return None if every repository is meant.

        Computed only if a name is not an id, because it runs git.
        """
        from fleet.git.repository import NoRepository, NotOwned, find_repository  # imported late; runs git

        try:
            return find_repository(self._directory).top if self._directory else None
        except (NoRepository, NotOwned):
            return None


ANYWHERE = NameScope()


def is_pattern(fleet: Fleet, name: str) -> bool:
    """Return True if a name is a glob and not the exact id of a task."""
    return bool(WILD & set(name)) and not _by_id(fleet, name)


def find_tasks(
    fleet: Fleet, names: Iterable[str], *, among: Filter | None = None, scope: NameScope = ANYWHERE, exact: bool = False
) -> list[str]:
    """Return the ids that names mean, without duplicates and in the order of the names.

    A name is an exact id, a branch, an id without its prefix, a unique part of an id, or a glob. With `exact`, only
    whole ids and branches count, for commands that stop, remove, merge or close. A glob matches only tasks in `among`;
    its matches are sorted by branch. Raises TaskNotFound, UsageError if a name is ambiguous, and FleetError if a glob
    fits nothing.
    """
    found: dict[str, None] = {}
    for name in names:
        if is_pattern(fleet, name):
            fitting = _fitting(fleet, name, among or Filter(), scope)
            if not fitting:
                raise FleetError(f"no task matches {name!r}", hint=HINT)
            found |= dict.fromkeys(fitting)
        else:
            found[_one(fleet, name, scope, exact=exact)] = None
    return list(found)


def find_exactly(
    fleet: Fleet, names: Iterable[str], *, among: Filter | None = None, scope: NameScope = ANYWHERE
) -> tuple[list[str], list[str]]:
    """Return the ids of tasks named exactly, and the other ids that globs match. Raises the errors of `find_tasks`."""
    names = list(names)
    patterns = [name for name in names if is_pattern(fleet, name)]
    exact = find_tasks(fleet, [name for name in names if name not in patterns], scope=scope, exact=True)
    fitting = find_tasks(fleet, patterns, among=among, scope=scope)
    return exact, [key for key in fitting if key not in exact]


def find_task(fleet: Fleet, name: str, *, scope: NameScope = ANYWHERE, exact: bool = False) -> str:
    """Return the id of the one task that a name means.

    Raises the errors of `find_tasks`, and UsageError if it fits several.
    """
    found = find_tasks(fleet, [name], scope=scope, exact=exact)
    if len(found) > 1:
        raise UsageError(f"{name!r} matches {len(found)} tasks: {shown(fleet, found)}", hint="pass one of them")
    return found[0]


def _fitting(fleet: Fleet, pattern: str, among: Filter, scope: NameScope) -> list[str]:
    plain = re.split(r"[*?[]", pattern, maxsplit=1)[0]

    def fits(task: Task) -> bool:
        if task.branch and scope.has(task) and fnmatchcase(task.branch, pattern):
            return True
        # `f*` is meant for branches. All ids begin with `fleet-`, so a glob matches ids only if it spells that prefix
        # out.
        spelled = plain.startswith(task.id[: task.id.rfind("-") + 1] or task.id)
        return spelled and fnmatchcase(task.id, pattern) and (not task.repo or scope.has(task))

    return [task.id for task in by_branch(filter(fits, fleet.store.tasks.find(among, sort="id")))]


def by_branch(tasks: Iterable[Task]) -> list[Task]:
    """Sort tasks by branch with numbers in numeric order: -A2 before -A10. Tasks without a branch come last."""
    return sorted(tasks, key=lambda task: (not task.branch, _counted(task.branch), task.id))


def _counted(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", name)]


def shown(fleet: Fleet, ids: Sequence[str]) -> str:
    """Return the first of these ids, with their branches, on one line."""
    return _shown(_with_branches(fleet, ids))


def _with_branches(fleet: Fleet, ids: Sequence[str]) -> list[str]:
    """Return the ids, each with its branch if it has one."""
    branches = {task.id: task.branch for task in fleet.store.tasks.find(Filter(ids=tuple(ids)), sort="id")}
    return [f"{key} ({branches[key]})" if branches.get(key) else key for key in ids]


def _one(fleet: Fleet, name: str, scope: NameScope, *, exact: bool) -> str:
    if found := _by_id(fleet, name):
        return found[0].id
    for branch in (name, *aliases_of(name)):
        if task := _by_branch(fleet, branch, scope):
            return task.id
    try:
        return find_id(fleet.store, name, guess=not exact)
    except AmbiguousId as error:
        candidates = shown(fleet, error.candidates)
        raise UsageError(f"ambiguous id {name!r} matches {candidates}", hint="type more of the id") from error
    except TaskNotFound as error:
        error.hint = HINT if error.hint == TaskNotFound.hint else error.hint
        near = fleet.store.tasks.find(Filter(id_has=name), sort="id", limit=MOST_SHOWN + 1) if exact and name else []
        if near:
            error.hint = f"pass a full id or branch: did you mean {shown(fleet, [task.id for task in near])}?"
        raise


def _by_id(fleet: Fleet, name: str) -> list[Task]:
    return fleet.store.tasks.find(Filter(ids=(name,)), sort="id", limit=1)


def _by_branch(fleet: Fleet, branch: str, scope: NameScope) -> Task | None:
    """Return the task with this branch. Return None if no task has it.

    Of several tasks in one repository, prefer the newest unfinished task, else the newest. Raises UsageError if tasks
    of several repositories have the branch.
    """
    found = fleet.store.tasks.find(Filter(branch=branch, repo=scope.repo), sort="created")
    alive = [task for task in found if task.status not in OVER or task.is_supervised] or found
    newest = list({task.repo: task for task in reversed(alive)}.values())
    if len(newest) > 1:
        named = [f"{task.id} ({task.repo})" for task in newest]
        raise UsageError(f"branch {branch!r} belongs to several tasks: {_shown(named)}", hint="pass the id of the task")
    return newest[0] if newest else None


def _shown(names: list[str]) -> str:
    return ", ".join(names[:MOST_SHOWN]) + (" …" if len(names) > MOST_SHOWN else "")
