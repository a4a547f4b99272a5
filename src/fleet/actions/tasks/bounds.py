"""Limits on the tasks that a run creates: depth, repositories, and budgets.

`Bounds.applied` enforces them for the command line, `bd`, imports, workflows and MCP alike. Every limit comes from what
fleet knows about the run's own task, never from the caller or its environment.
"""

from __future__ import annotations

import os
from functools import cache

from fleet.core.branch import COMMIT, check_branch
from fleet.core.budget import LEAST, format_amount, limits_in
from fleet.core.errors import BadInput, FleetError, IllegalMove, TaskNotFound
from fleet.core.filter import Filter
from fleet.core.jsontext import encode
from fleet.core.record import Record
from fleet.core.rules import Rules, rules_in
from fleet.core.task import Caller

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from fleet.assembly import Fleet
    from fleet.core.task import Task
    from fleet.settings import Settings
    from fleet.store.base import Store

#: Default depth: runs of a person's task can create tasks, whose runs can create tasks in turn, but no deeper.
DEEPEST = 2
#: Default number of tasks created through tools that can run at once.
MOST_AT_ONCE = 50
#: Task fields that bounds restrict.
BOUND = ("rules", "limits", "cwd", "repo", "remote", "base", "branch", "coder", "account")
#: The setting that caps a retry rule if the creating task does not set that rule.
TIMES = {"retries": "retry_limit", "stale_restarts": "retry_limit", "rate_limit_retries": "limit_waits"}
#: Limits that 0 switches off.
OFF_AT_ZERO = ("first_event_seconds", "silence_seconds")


class CreationBounds(Record):
    """The limits of all tasks that a run creates."""

    task: Task  # the run's own task
    depth: int  # number of runs that led to it
    rules: Rules  # rules of the run's own task
    settings: Callable[[], Settings]  # loads the home's settings; most tasks need none
    is_family: Callable[[str, str], bool]  # True if a branch is new or belongs to a task of this run
    repos: tuple[tuple[str, ...], ...] = ()  # each inner list must allow the repository
    left: dict[str, float] = {}  # noqa: RUF012 - remaining amount of each budget

    @property
    def task_id(self) -> str:
        return self.task.id

    @property
    def deepest(self) -> int:
        """Return the maximum depth, as set by the first task of the chain."""
        return DEEPEST if self.rules.depth is None else self.rules.depth

    def check(self) -> None:
        """Raise IllegalMove if the run may not create tasks."""
        if self.depth >= self.deepest:
            raise IllegalMove(
                f"an agent of {self.task_id} may not create tasks: "
                f"its depth is {self.depth}, and the maximum is {self.deepest}",
                hint="do the work yourself, or describe the rest in your result or a comment",
            )

    def applied(self, task: Task, kept: Task | None = None) -> Task:
        """Return a task of the run, restricted to the run's limits. Raises IllegalMove and BadInput.

        Values that are unchanged from `kept`, the task before this change, stay: a person may have set them.
        """
        self.check_place(task.repo or task.cwd)
        if task.repo and task.cwd != task.repo:
            self.check_place(task.cwd)
        if self.repos:  # resolved now, so a link that changes later cannot lead out of the repositories
            task = task.replace(**{name: real(place) for name in ("cwd", "repo") if (place := getattr(task, name))})
        for name, check in self._checks.items():
            if getattr(task, name) and (kept is None or getattr(task, name) != getattr(kept, name)):
                check(task)
        return task.replace(
            rules=self._ruled(task, kept),
            limits=self._limited(task.limits),
            account=self._account(task, kept),
            path=self.task.path,
        )

    @property
    def _checks(self) -> dict[str, Callable[[Task], None]]:
        return {
            "coder": self._check_coder,
            "account": self._check_account,
            "base": _check_base,
            "branch": self._check_branch,
            "remote": _check_remote,
        }

    def _check_coder(self, task: Task) -> None:
        """Accept only a coder's name. An import string would make the supervisor load code."""
        from fleet.coders import known

        if ":" in task.coder and task.coder not in (self.task.coder, self.settings().coder):
            raise IllegalMove(
                f"an agent may not choose coder {task.coder!r}: no coder has that name",
                hint="run `fleet coders` to list their names",
            )
        known(task.coder, described=self.settings().coders)

    def _check_account(self, task: Task) -> None:
        if task.account != self.task.account:
            raise IllegalMove(
                f"an agent of {self.task_id} may not choose account {task.account!r}",
                hint="omit the account: your tasks use the account of your own task",
            )

    def _check_branch(self, task: Task) -> None:
        check_branch(task.branch)
        if not self.is_family(task.repo or task.cwd, task.branch):
            raise IllegalMove(
                f"an agent of {self.task_id} may not work on branch {task.branch!r}, which exists already",
                hint="choose another name; set the commit to start from in `fleet.base` of the metadata",
            )

    def _account(self, task: Task, kept: Task | None) -> str:
        """Return the account of the creating task, or "" for another coder. Keep an account that a person chose."""
        if kept is not None and kept.coder == task.coder and kept.account not in ("", self.task.account):
            return kept.account
        is_same = bool(self.task.account) and self._coder_of(task) == self._coder_of(self.task)
        return self.task.account if is_same else ""

    def _coder_of(self, task: Task) -> str:
        return task.coder or self.settings().coder

    def check_place(self, place: str) -> None:
        """Raise IllegalMove if a directory is in none of the allowed repositories."""
        if not self.repos or (place and all(allows(repos, real(place)) for repos in self.repos)):
            return
        top = _top(place)
        if not all(allows(repos, top) for repos in self.repos):
            raise IllegalMove(
                f"{place or 'no directory'} is not an allowed repository",
                hint=f"use one of these: {', '.join(dict.fromkeys(each for repos in self.repos for each in repos))}",
            )

    def _ruled(self, task: Task, kept: Task | None) -> str:
        text, before = task.rules, rules_in(kept.rules) if kept is not None else Rules()
        try:
            said = rules_in(text)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise BadInput(
                f"invalid fleet.rules: {error}", hint='write fleet.rules like {"allow": ["src/"]}'
            ) from error
        if said.extra_args and said.extra_args != before.extra_args:
            raise IllegalMove("an agent may not pass extra_args", hint="omit extra_args: only people may pass it")
        own = self.rules
        repos = own.repos if own.repos and not _within(said.repos, own.repos) else said.repos
        held = said.replace(
            depth=own.depth if said.depth is None else min(said.depth, self.deepest),
            at_once=own.at_once if said.at_once is None else min(said.at_once, own.at_once or MOST_AT_ONCE),
            repos=repos,
            fail_to_pass=said.fail_to_pass or own.fail_to_pass,
            **{name: self._times(name, getattr(said, name)) for name in TIMES},
        )
        if (own.allow or own.protect) and _top(task.repo or task.cwd) == _top(self.task.repo or self.task.cwd):
            narrower = said.allow and all(_is_below(each, own.allow) for each in said.allow)
            allow = said.allow if narrower or not own.allow else own.allow
            held = held.replace(allow=allow, protect=tuple(dict.fromkeys((*own.protect, *said.protect))))
        return text if held == said else held.text()

    def _times(self, name: str, said: int | None) -> int | None:
        """Return the number of retries, at most that of the creating task."""
        if said is None:
            return None
        own: int | None = getattr(self.rules, name)
        if own is None:
            setting: int = getattr(self.settings().limits, TIMES[name])
            own = setting - (TIMES[name] == "retry_limit")  # the last failure blocks the task, so it is no retry
        return min(said, own)

    def _limited(self, text: str) -> str:
        own = limits_in(self.task.limits)
        try:
            said = limits_in(text)
        except (ValueError, RecursionError) as error:
            raise BadInput(f"invalid limits of the task: {error}") from error
        held = dict(said)
        for name in {*said, *own} - LEAST.keys():
            held[name] = self._least(name, said.get(name), own.get(name))
        for name, left in self.left.items():
            if left < LEAST[name]:
                raise IllegalMove(
                    f"an agent of {self.task_id} may not create tasks: {format_amount(name, 0)} of its budget is left",
                    hint="do the rest yourself, or describe it in your result",
                )
            asked: Any = said.get(name)
            held[name] = min(asked, left) if _is_number(asked) else left
        return text if held == said else encode(held)

    def _least(self, name: str, said: Any, own: Any) -> Any:
        """Return the stricter of a task's limit and that of the creating task or the settings."""
        most = own if _is_number(own) else getattr(self.settings().watchdog, name, None)
        if not _is_number(said) or not _is_number(most):
            return said if most is None else most
        is_off = name in OFF_AT_ZERO and not (said and most)
        return max(said, most) if is_off else min(said, most)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_below(glob: str, allowed: tuple[str, ...]) -> bool:
    """Return True if a glob matches only paths that `allowed` matches, judged by prefixes."""
    return any(glob == each or (each.endswith(("/", "/**")) and glob.startswith(each.rstrip("*"))) for each in allowed)


def _check_base(task: Task) -> None:
    if not COMMIT.fullmatch(task.base):
        raise IllegalMove(
            f"an agent may not choose base {task.base[:80]!r}: it is not the id of a commit",
            hint="run `git rev-parse NAME` to print the id",
        )


def _check_remote(task: Task) -> None:
    from fleet.git.remote import remote_of  # needed only if hosts share a queue
    from fleet.git.repository import find_repository

    known = remote_of(find_repository(task.repo or task.cwd))
    if known is None or known.url != task.remote:
        raise IllegalMove(
            f"an agent may not choose remote {task.remote[:80]!r}",
            hint="omit the remote: fleet uses the remote of the repository",
        )


def bounds_of(fleet: Fleet, caller: Caller) -> CreationBounds:
    """Return the limits for tasks created by a run. Raises IllegalMove if they cannot be read."""
    if not caller.is_live:
        why = "has finished" if caller == Caller.over() else "is unknown"
        raise IllegalMove(f"an agent may not create tasks: its run {why}", hint=caller.hint)
    try:
        task = fleet.store.tasks.get(caller.task_id)
        rules = rules_in(task.rules)
        limits_in(task.limits)
    except (TaskNotFound, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise IllegalMove("an agent may not create tasks if its own task cannot be read") from error
    settings = cache(lambda: _settings(fleet))
    found = CreationBounds(
        task=task, depth=0, rules=rules, settings=settings, is_family=lambda *place: _is_family(fleet, caller, *place)
    )
    depth = max(caller.depth, _depth(fleet.store, task, found.deepest))
    repos = tuple(tuple(real(each) for each in listed) for listed in (rules.repos, caller.repos) if listed)
    return found.replace(depth=depth, repos=repos, left=_left(fleet, task, settings))


def real(path: str) -> str:
    """Return an absolute path with all links resolved."""
    return os.path.realpath(os.path.expanduser(path))  # noqa: PTH111


def allows(repos: tuple[str, ...], top: str) -> bool:
    """Return True if a repository is in `repos` or below an entry. An empty list allows any repository."""
    return not repos or any(top == each or top.startswith(f"{each.rstrip('/')}/") for each in repos)


def _within(said: tuple[str, ...], repos: tuple[str, ...]) -> bool:
    allowed = tuple(real(each) for each in repos)
    return bool(said) and all(allows(allowed, real(each)) for each in said)


def _top(place: str) -> str:
    """Return the main checkout of a directory's repository. Return "" if the directory is in no repository."""
    from fleet.git.repository import find_repository  # needed only if repositories are listed

    try:
        return find_repository(place).top if place else ""
    except (FleetError, OSError, ValueError):
        return ""


def _depth(store: Store, task: Task, deepest: int) -> int:
    """Return how many runs led to a task. A deleted task could hide any number and counts as the maximum."""
    made_by, depth = task.made_by, 0
    while made_by and depth < deepest:
        found = store.tasks.find(Filter(ids=(made_by,)), sort="id", limit=1)
        if not found:
            return deepest
        made_by, depth = found[0].made_by, depth + 1
    return depth


def _settings(fleet: Fleet) -> Settings:
    from fleet.settings import load  # most tasks need no settings

    return load(fleet.home, env={}, lenient=True)


def _is_family(fleet: Fleet, caller: Caller, place: str, branch: str) -> bool:
    """Return True if a branch is new or belongs to a task that the run may change."""
    from fleet.git.repository import find_repository
    from fleet.git.view import branch_tip  # needed only if an agent names a branch

    repository = find_repository(place)
    if branch_tip(repository, branch) is None:
        return True
    spaces = fleet.store.workspaces.find(common=repository.common, gone=True)
    ids = tuple(space.task_id for space in spaces if space.branch == branch)
    return any(caller.task_id in (task.id, task.made_by) for task in fleet.store.tasks.find(Filter(ids=ids)) if ids)


def _left(fleet: Fleet, task: Task, settings: Callable[[], Settings]) -> dict[str, float]:
    """Return what is left of the budgets of a task and its ancestors. Return {} if none has a budget."""
    if not task.made_by and not task.limits:
        return {}
    from fleet.supervisor.run.costs import left_of  # needed only for tasks that may have a budget

    return left_of(fleet.store, settings(), task)
