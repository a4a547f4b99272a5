"""Creating workers: tasks with their own worktree and no terminal, compatible with codefleet.

Shared facts are looked up once for all workers, and the workers are added in one transaction.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.tasks import branch_base, placement
from fleet.actions.tasks.bounds import allows, bounds_of, real
from fleet.actions.tasks.rights import as_seen_by
from fleet.core import checks
from fleet.core import host as host_words
from fleet.core.errors import BadInput, FleetError, IllegalMove
from fleet.core.jsontext import encode
from fleet.core.record import Record
from fleet.core.task import HEADLESS, WORKTREE, Task
from fleet.git.repository import find_repository
from fleet.supervisor.trust import refuse_untrusted, settings_in
from fleet.wake import wake

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from typing import Any

    from fleet.actions.tasks.placement import Ticket
    from fleet.actions.workers.terms import WorkerTerms
    from fleet.assembly import Fleet
    from fleet.core.rules import Rules
    from fleet.core.task import Caller
    from fleet.git.repository import Repository
    from fleet.settings import Settings

ORIGIN = "mcp"
#: The key in a task's metadata for values from codefleet's callers.
KEY = "worker"
LONGEST_PROMPT = 1024 * 1024
LONGEST_NAME = 200
LONGEST_PART = 50  # of a branch name
LONGEST_CODER = 30
MOST_WORDS = 100
MOST_METADATA = 64 * 1024


class WorkerOrder(Record):
    """A new worker, as a caller of `create_worker` describes it."""

    task_name: str
    prompt: str
    base_ref: str = "HEAD"
    model: str = ""
    executor: str = ""
    reasoning_effort: str = ""
    timeout_seconds: float | None = None
    profile: str = ""
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}  # noqa: RUF012 - never changed in place
    extra_args: tuple[str, ...] = ()
    parent_worker_id: str = ""
    verify: str = ""
    requires: tuple[str, ...] = ()
    host: str = ""


class WorkerCreator(NamedTuple):
    """The creator of workers: a person by name, or a run."""

    by: str
    caller: Caller | None = None


class _Start(NamedTuple):
    """The start of a worker: its base commit and its requirements on a host."""

    base: str
    requires: str


class _WorkerSite(NamedTuple):
    """The shared facts of all workers of one call."""

    repository: Repository
    settings: Settings
    terms: WorkerTerms
    rules: Rules  # of each worker, without the rules in its order
    by: str
    now: datetime
    tickets: dict[_Start, Ticket]


def make(
    fleet: Fleet, repo_path: str, orders: Sequence[WorkerOrder], terms: WorkerTerms, maker: WorkerCreator
) -> list[Task | FleetError]:
    """Create a task for each order, or an error if it cannot be created.

    Add all tasks in one transaction and start them. Raises FleetError for faults that concern all orders: a missing,
    forbidden or untrusted repository, or a caller that is too deep.
    """
    repository = _repository(repo_path)
    rules = rules_for(fleet, repository.top, terms, maker.caller)
    settings = settings_in(fleet.home, fleet.store, repository.top)
    refuse_untrusted(fleet.store, repository, settings)
    commits = branch_base.commits(fleet.home, repository, [order.base_ref for order in orders], cwd=real(repo_path))
    starts = [_start(order, commits[order.base_ref]) for order in orders]
    tickets = {
        start: placement.ticket(fleet, repository, start.base, start.requires, settings=settings)
        for start in dict.fromkeys(starts)
        if isinstance(start, _Start)
    }
    site = _WorkerSite(repository, settings, terms, rules, maker.by, fleet.store.now(), tickets)
    made = [_drafted(order, start, site) for order, start in zip(orders, starts, strict=True)]
    store = as_seen_by(fleet, maker.caller)
    with fleet.store.atomic():
        for task in made:
            if isinstance(task, Task):
                store.tasks.add(task)
    wake(fleet.home)
    return made


def rules_for(fleet: Fleet, place: str, terms: WorkerTerms, caller: Caller | None) -> Rules:
    """Return the rules for tasks made in a place through tools. Raises IllegalMove if none may be made.

    For a run, its own task limits the depth, and the server's environment does not.
    """
    if not allows(terms.repos, place):
        raise IllegalMove(
            f"{place or 'no directory'} is not an allowed repository", hint="use a repository from FLEET_ALLOWED_REPOS"
        )
    if caller is None:
        return terms.rules()
    bounds = bounds_of(fleet, caller)
    bounds.check()
    bounds.check_place(place)
    return terms.rules().replace(depth=None)


def new_id() -> str:
    """Return a new worker id in codefleet's format."""
    return f"w_{os.urandom(6).hex()}"


def branch_of(coder: str, task_name: str, key: str) -> str:
    """Return a worker's branch: coder, task name and id."""
    return f"{_part(coder, LONGEST_CODER) or 'coder'}/{_part(task_name, LONGEST_PART) or 'task'}/{key}"


def _part(text: str, longest: int) -> str:
    plain = re.sub(r"\.{2,}", ".", re.sub(r"[^A-Za-z0-9._-]+", "-", text))[:longest].strip("-._")
    return plain.removesuffix(".lock").strip("-._")


def _repository(path: str) -> Repository:
    if not path or "\0" in path:
        raise BadInput(
            "repo_path is empty" if not path else "repo_path contains a NUL character", hint="pass a directory"
        )
    place = real(path)
    if not os.path.isdir(place):  # noqa: PTH112
        raise BadInput(f"{path[:200]} is not a directory", hint="pass a checkout of a git repository in repo_path")
    return find_repository(place)


def _start(order: WorkerOrder, base: str | FleetError) -> _Start | FleetError:
    try:
        return (
            base
            if isinstance(base, FleetError)
            else _Start(base, host_words.make_requirements(order.requires, order.host))
        )
    except FleetError as error:
        return error


def _drafted(order: WorkerOrder, start: _Start | FleetError, site: _WorkerSite) -> Task | FleetError:
    top, terms = site.repository.top, site.terms
    try:
        if isinstance(start, FleetError):
            return start
        _check(order)
        key, coder = new_id(), terms.coder(order.executor, site.settings)
        return Task(
            id=key,
            title=order.task_name,
            description=order.prompt,
            created_at=site.now,
            created_by=site.by,
            updated_at=site.now,
            cwd=top,
            repo=top,
            base=start.base,
            branch=branch_of(coder, order.task_name, key),
            workspace=WORKTREE,
            mode=HEADLESS,
            coder=coder,
            model=checks.model(order.model or terms.model(coder)),
            verify=order.verify,
            rules=_rules(order, site.rules).text(),
            limits=encode(terms.limits(order.timeout_seconds)),
            remote=site.tickets[start].remote,
            requires=site.tickets[start].requires,
            origin=ORIGIN,
            path=terms.path,
            metadata={KEY: _kept(order)},
        )
    except FleetError as error:
        return error


def _rules(order: WorkerOrder, rules: Rules) -> Rules:
    effort = checks.line("reasoning_effort", order.reasoning_effort or rules.reasoning_effort, longest=40)
    return rules.replace(reasoning_effort=effort, extra_args=order.extra_args)


def _kept(order: WorkerOrder) -> dict[str, Any]:
    told = {
        "profile": order.profile,
        "tags": list(order.tags),
        "metadata": order.metadata,
        "parent_worker_id": order.parent_worker_id,
    }
    return {name: value for name, value in told.items() if value}


def _check(order: WorkerOrder) -> None:
    if not checks.line("task_name", order.task_name, longest=LONGEST_NAME):
        raise BadInput("task_name is empty", hint="pass a few words on the work of the worker")
    if not order.prompt.strip():
        raise BadInput("the prompt is empty", hint="describe the work of the worker")
    _check_text("the prompt", order.prompt, LONGEST_PROMPT)
    _check_text("verify", order.verify, LONGEST_NAME * 10)
    for name, words in (("extra_args", order.extra_args), ("tags", order.tags)):
        if len(words) > MOST_WORDS:
            raise BadInput(f"{name} has {len(words)} entries; the maximum is {MOST_WORDS}")
        for word in words:
            _check_text(name, word, MOST_METADATA)
    _check_text("metadata", encode(order.metadata), MOST_METADATA)
    for name in ("profile", "parent_worker_id"):
        checks.line(name, getattr(order, name), longest=LONGEST_NAME)


def _check_text(name: str, text: str, longest: int) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise BadInput(f"{name} is not UTF-8 text", hint="convert it to UTF-8 first") from error
    if size > longest:
        raise BadInput(
            f"{name} has {size} bytes; the maximum is {longest}", hint="write the text to a file of the repository"
        )
    if "\0" in text:
        raise BadInput(f"{name} contains a NUL character", hint="remove the NUL character")
