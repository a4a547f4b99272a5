"""What a run leaves to the tasks that it makes, whichever way it makes them: how deep, where, and what they may spend.

All of it is what fleet knows of the run's own task; nothing is what the caller says, or its environment.
"""

from __future__ import annotations

import os

from fleet.core.budget import LEAST, amount, limits_in
from fleet.core.errors import BadInput, FleetError, IllegalMove, TaskNotFound
from fleet.core.filter import Filter
from fleet.core.jsontext import encode
from fleet.core.record import Record
from fleet.core.rules import Rules, rules_in
from fleet.core.task import Caller

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fleet.assembly import Fleet
    from fleet.core.task import Task
    from fleet.store.base import Queue

#: A person's task may lead to tasks made by its runs, and these to others; there it ends, where nobody said otherwise.
DEEPEST = 2
#: Fields of a task that its maker's bounds are about.
BOUND = ("rules", "limits", "cwd", "repo")


class Bounds(Record):
    """What holds for whatever a run makes."""

    task_id: str  # the run's own
    depth: int  # how many runs led to it
    rules: Rules  # that it is held to itself
    repos: tuple[tuple[str, ...], ...] = ()  # lists, each of which must allow a repository
    left: dict[str, float] = {}  # noqa: RUF012 - of each budget that there is

    @property
    def deepest(self) -> int:
        """How deep tasks may lead to tasks, as the maker of the first of them said."""
        return DEEPEST if self.rules.depth is None else self.rules.depth

    def check(self) -> None:
        """Raise IllegalMove where the run may make no task at all."""
        if self.depth >= self.deepest:
            raise IllegalMove(
                f"an agent of {self.task_id} may not make tasks: "
                f"it is {self.depth} deep already, and {self.deepest} is the most",
                hint="do it yourself, or say in your result or a comment what is left to do.",
            )

    def applied(self, task: Task) -> Task:
        """A task of the run's, held to what its maker leaves to it. Raises IllegalMove, BadInput."""
        self.check_place(task.repo or task.cwd)
        if task.repo and task.cwd != task.repo:
            self.check_place(task.cwd)
        return task.replace(rules=self._ruled(task.rules), limits=self._limited(task.limits))

    def check_place(self, place: str) -> None:
        """Raise IllegalMove for a directory that is in none of the allowed repositories."""
        if all(allows(repos, place) for repos in self.repos):
            return
        top = _top(place)
        if not all(allows(repos, top) for repos in self.repos):
            raise IllegalMove(
                f"{place or 'no directory'} is not an allowed repository",
                hint=f"allowed are: {', '.join(dict.fromkeys(each for repos in self.repos for each in repos))}.",
            )

    def _ruled(self, text: str) -> str:
        try:
            said = rules_in(text)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise BadInput(f"fleet.rules are not understood: {error}", hint='such as {"allow": ["src/"]}.') from error
        own = self.rules
        repos = own.repos if own.repos and not _within(said.repos, own.repos) else said.repos
        held = said.replace(depth=_least(said.depth, own.depth), at_once=_least(said.at_once, own.at_once), repos=repos)
        return text if held == said else held.text()

    def _limited(self, text: str) -> str:
        if not self.left:
            return text
        try:
            said = limits_in(text)
        except (ValueError, RecursionError) as error:
            raise BadInput(f"the task's limits are not understood: {error}") from error
        for name, left in self.left.items():
            if left < LEAST[name]:
                raise IllegalMove(
                    f"an agent of {self.task_id} may not make tasks: of what it and they may spend "
                    f"{amount(name, 0)} is left",
                    hint="do what is left to do yourself, or say so in your result.",
                )
            own = said.get(name)
            said[name] = min(own, left) if isinstance(own, int | float) and own is not True else left
        return encode(said)


def bounds_of(fleet: Fleet, caller: Caller) -> Bounds:
    """What the task of a calling run leaves to those that it makes. Raises IllegalMove where that cannot be read."""
    if not caller.is_live:
        why = "is over" if caller == Caller.over() else "is not known"
        raise IllegalMove(f"an agent may not make tasks: its run {why}", hint=caller.hint)
    try:
        task = fleet.queue.get(caller.task_id)
        rules = rules_in(task.rules)
    except (TaskNotFound, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise IllegalMove("an agent whose task cannot be read may not make tasks") from error
    found = Bounds(task_id=task.id, depth=0, rules=rules)
    depth = max(caller.depth, _depth(fleet.queue, task, found.deepest))
    repos = tuple(tuple(real(each) for each in listed) for listed in (rules.repos, caller.repos) if listed)
    return found.replace(depth=depth, repos=repos, left=_left(fleet, task))


def real(path: str) -> str:
    """A path as it is compared: absolute, with no link in it."""
    return os.path.realpath(os.path.expanduser(path))  # noqa: PTH111


def allows(repos: tuple[str, ...], top: str) -> bool:
    """Whether a repository is one of these or lies below one; none named: any."""
    return not repos or any(top == each or top.startswith(f"{each.rstrip('/')}/") for each in repos)


def _within(said: tuple[str, ...], repos: tuple[str, ...]) -> bool:
    allowed = tuple(real(each) for each in repos)
    return bool(said) and all(allows(allowed, real(each)) for each in said)


def _top(place: str) -> str:
    """The main checkout of the repository that a directory is in, be it one of its worktrees."""
    from fleet.workspaces.repository import find_repository  # only where repositories are listed

    try:
        return find_repository(place).top if place else ""
    except (FleetError, OSError, ValueError):
        return ""


def _depth(queue: Queue, task: Task, deepest: int) -> int:
    """How many runs led to a task. A deleted one could hide any number, and counts as the most."""
    made_by, depth = task.made_by, 0
    while made_by and depth < deepest:
        found = queue.find(Filter(ids=(made_by,)), sort="id", limit=1)
        if not found:
            return deepest
        made_by, depth = found[0].made_by, depth + 1
    return depth


def _left(fleet: Fleet, task: Task) -> dict[str, float]:
    """What is left of the budgets of a task and of those that led to it; empty where none has one."""
    if not task.made_by and not task.limits:
        return {}
    from fleet.config import load
    from fleet.engine.spending import left_of  # both only for tasks that may have a budget

    return left_of(fleet.queue, fleet.history, load(fleet.home, env={}, lenient=True), task)


def _least(*said: int | None) -> int | None:
    return min((each for each in said if each is not None), default=None)
