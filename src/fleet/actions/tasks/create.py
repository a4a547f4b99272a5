"""Creation of tasks with their own branch and worktree: a single task, copies of one prompt, or several tasks."""

from __future__ import annotations

import os
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

from fleet import coders
from fleet.actions.tasks import placement, tasks
from fleet.actions.tasks.rights import as_seen_by
from fleet.actions.tasks.tasks import Draft
from fleet.core import branch as names
from fleet.core import checks
from fleet.core.errors import BadInput, BranchTaken, FleetError, UsageError
from fleet.core.filter import Filter
from fleet.core.host import PIN, parse_requirements
from fleet.core.ids import new_uuid
from fleet.core.record import Record
from fleet.core.task import CREATE, HEADLESS, INTERACTIVE, WORKTREE, Status
from fleet.files import find_program
from fleet.git.branches import base_name, checked_base
from fleet.git.repository import find_repository
from fleet.git.view import View, in_the_way
from fleet.git.worktree_records import branches_checked_out
from fleet.supervisor.admission_inputs import not_installed
from fleet.supervisor.trust import refuse_untrusted, settings_in
from fleet.wake import wake

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from fleet.assembly import Fleet
    from fleet.core.task import Caller, Task
    from fleet.git.repository import Repository
    from fleet.settings import Settings

MOST = 100
LONGEST_PROMPT = 1024 * 1024
LONGEST_TITLE = 120


class AgentRequest(Record):
    """The request for one agent."""

    branch: str
    prompt: str = ""
    coder: str = ""
    model: str = ""


class CreateOptions(Record):
    """Options shared by all agents of one command."""

    base: str = ""
    quick: bool = False
    headless: bool = False
    verify: str = ""
    rules: str = ""  # JSON, see `core.rules`
    requires: str = ""  # JSON, see `core.host`


class CreatedTasks(NamedTuple):
    """The tasks that one command created."""

    tasks: list[Task]
    batch: str
    notes: list[str]  # messages for the user, such as existing branches and missing programs
    lacking: dict[str, str]  # by task ID, why no agent can start on this host


class TaskCreator(Record):
    """The origin and creator of tasks."""

    origin: str
    by: str
    caller: Caller | None = None


def create(
    fleet: Fleet, directory: str, wishes: list[AgentRequest], terms: CreateOptions, maker: TaskCreator
) -> CreatedTasks:
    """Create a task for each wish in a directory's repository, all or none, and wake the supervisor.

    Raises UsageError, BranchTaken and NoRepository. Raises FleetError if the project's commands are not trusted.
    """
    repository = find_repository(directory)
    settings = settings_in(fleet.home, fleet.store, repository.top)
    check_names(wishes)
    with _typed():
        for wish in wishes:
            _check(wish, settings)
    refuse_untrusted(fleet.store, repository, settings, quick=terms.quick)
    _refuse_taken(fleet, repository, wishes)
    view = View(fleet.home, repository)
    base, reused = _resolved(repository, view, directory, terms.base, [wish.branch for wish in wishes])
    usual, notes = _mode(settings, terms)
    modes = [_mode_of(wish, settings, usual, notes) for wish in wishes]
    batch = batch_name(maker.origin, fleet.store.now())
    ticket = placement.ticket(fleet, repository, base, terms.requires, settings=settings)
    common = {
        "cwd": repository.top,
        "repo": repository.top,
        "base": base,
        "workspace": WORKTREE,
        "verify": terms.verify,
        "rules": terms.rules,
        **ticket.fields,
        "batch": batch,
        "origin": maker.origin,
        "path": os.environ.get("PATH", ""),
        "metadata": {"quick": True} if terms.quick else {},
    }
    store = as_seen_by(fleet, maker.caller)
    fields = [_fields(wish, settings, mode) for wish, mode in zip(wishes, modes, strict=True)]
    drafts = [Draft(fields=common | each | _kept_here(fleet, each, reused, ticket)) for each in fields]
    with fleet.store.atomic():
        _refuse_taken(fleet, repository, wishes)  # checked again in the transaction that creates the tasks
        made = [tasks.create(store, draft, actor=maker.by)[0] for draft in drafts]
    wake(fleet.home)
    notes += [f"branch {branch} already existed and is continued" for branch in reused]
    notes += [f"the work {note}" for note in ticket.notes]
    lacks = [_lacks(fleet, wish, settings) for wish in wishes]
    return CreatedTasks(made, batch, notes, {task.id: why for task, why in zip(made, lacks, strict=True) if why})


def _kept_here(fleet: Fleet, fields: dict[str, str], reused: list[str], ticket: placement.Ticket) -> dict[str, str]:
    """Return fields that keep a task here if its branch exists only here or users attach to its terminal."""
    named = any(word.startswith(PIN) for word in parse_requirements(ticket.requires) or ())
    talks = fields["mode"] == INTERACTIVE and not named
    if not ticket.remote or not (talks or fields["branch"] in reused):
        return {}
    return {"remote": "", "requires": placement.stay(fleet.home, ticket.requires, fleet.store.hosts.all())}


def batch_name(origin: str, now: datetime) -> str:
    """Return a batch name. Tasks created one at a time share the batch of their day."""
    return f"manual-{now:%Y-%m-%d}" if origin == CREATE else f"{now:%y%m%d}-{new_uuid()[:4]}"


def fanout(count: int, prefix: str, prompt: str, agents: str, coder: str, model: str) -> list[AgentRequest]:
    """Return one wish per agent, all with the same prompt. Raises UsageError.

    `agents` spreads the prompt over coders, such as `claude:2,codex:1`.
    """
    spread = _spread(agents) if agents else [coder] * count
    if agents and count and count != len(spread):
        raise UsageError(
            f"--agents names {len(spread)} agents, but the count is {count}", hint="omit the count, or make both equal"
        )
    if not 1 <= len(spread) <= MOST:
        raise UsageError(f"cannot create {len(spread)} agents at once", hint=f"create 1 to {MOST} at once")
    prefix = prefix or f"fanout-{new_uuid()[:8]}"
    branches = names.fanout_names(prefix, len(spread))
    return [
        AgentRequest(branch=branch, prompt=prompt, coder=each, model=model)
        for branch, each in zip(branches, spread, strict=True)
    ]


def multi(pairs: list[str], coder: str, model: str) -> list[AgentRequest]:
    """Return agents parsed from `branch:prompt` pairs. Raises UsageError."""
    wishes = []
    for pair in pairs:
        branch, colon, prompt = pair.partition(":")
        if not colon or not branch.strip() or not prompt.strip():
            raise UsageError(f"{pair[:80]!r} is not BRANCH:PROMPT", hint='write fix-auth:"Fix the login bug"')
        wishes.append(AgentRequest(branch=branch.strip(), prompt=prompt.strip(), coder=coder, model=model))
    if not 1 <= len(wishes) <= MOST:
        raise UsageError(f"cannot create {len(wishes)} agents at once", hint=f"create 1 to {MOST} at once")
    return wishes


def _spread(agents: str) -> list[str]:
    spread: list[str] = []
    for part in agents.split(","):
        coder, _, count = part.strip().partition(":")
        if not coder or not (count or "1").isdecimal():
            raise UsageError(f"invalid --agents {agents!r}", hint="write claude:2,codex:1")
        spread += [coder] * int(count or 1)
        if len(spread) > MOST:
            break
    return spread


def check_names(wishes: list[AgentRequest]) -> None:
    """Raise UsageError for an invalid branch name, a duplicate, or a name that is a folder of another name."""
    with _typed():
        for wish in wishes:
            names.check_branch(wish.branch)
    branches = [wish.branch for wish in wishes]
    if twice := next((branch for branch in branches if branches.count(branch) > 1), ""):
        raise UsageError(f"branch {twice!r} is named twice", hint="give each agent its own branch")
    for branch in branches:
        if below := next((each for each in branches if each.startswith(f"{branch}/")), ""):
            raise _in_the_way(below, branch)


@contextmanager
def _typed() -> Iterator[None]:
    """Convert BadInput to Usage, because the values come from the command line."""
    try:
        yield
    except BadInput as error:
        raise UsageError(str(error), hint=error.hint) from error


def _in_the_way(branch: str, other: str) -> UsageError:
    return UsageError(
        f"branch {other!r} is in the way of {branch!r}: git cannot store a branch below the name of another one",
        hint="choose another name",
    )


def _check(wish: AgentRequest, settings: Settings) -> None:
    names.check_pattern(wish.branch, settings.project.branch_pattern)
    if wish.coder:
        coders.known(wish.coder, described=settings.coders)
    try:
        size = len(wish.prompt.encode())
    except UnicodeEncodeError as error:
        raise BadInput("the prompt is not UTF-8 text", hint="convert it to UTF-8 first") from error
    if size > LONGEST_PROMPT:
        raise BadInput(
            f"the prompt has {size} bytes; the maximum is {LONGEST_PROMPT}",
            hint="write the text to a file and name the file",
        )
    if "\0" in wish.prompt:
        raise BadInput("the prompt contains a NUL character", hint="remove the NUL character")


def _resolved(
    repository: Repository, view: View, directory: str, base: str, branches: list[str]
) -> tuple[str, list[str]]:
    """Return the start commit and the branches that already exist.

    Raises BadInput if an existing branch is checked out.
    """
    with _typed():
        name = base_name(repository, base, cwd=directory)
    found, *tips = view.resolve(name, *(f"refs/heads/{branch}" for branch in branches))
    with _typed() if base else nullcontext():
        commit = checked_base(repository, view, base, found)
    there = [branch for branch, tip in zip(branches, tips, strict=True) if tip is not None]
    out = branches_checked_out(repository) if there else {}
    for branch in there:
        if branch in out:
            raise BadInput(
                f"branch {branch!r} is checked out in {out[branch]}", hint="choose another name, or omit the branch"
            )
    if base and there:
        raise UsageError(
            f"branch {there[0]!r} already exists: its agent continues on it, not from {base}",
            hint="omit --base, or choose another name",
        )
    for branch in branches:
        if branch not in there and (other := in_the_way(repository, branch)):
            raise _in_the_way(branch, other)
    return commit, there


def _refuse_taken(fleet: Fleet, repository: Repository, wishes: list[AgentRequest]) -> None:
    branches = tuple(wish.branch for wish in wishes)
    under_way = Filter(branches=branches, repo=repository.top, not_statuses=(Status.CLOSED, Status.BLOCKED))
    for task in fleet.store.tasks.find(under_way, sort="id", limit=1):
        raise BranchTaken(task.branch, task.id, hint="" if task.is_claimed else _instead(task))
    for workspace in fleet.store.workspaces.find(common=repository.common):
        if workspace.branch in branches:
            found = fleet.store.tasks.find(Filter(ids=(workspace.task_id,)), sort="id")
            raise BranchTaken(workspace.branch, workspace.task_id, hint=_instead(found[0]) if found else "")


def _instead(task: Task) -> str:
    """Return a hint for a task that owns a branch but has no running agent."""
    if task.is_supervised:
        return ""
    frees = f"`fleet kill {task.id}` frees the branch and keeps its commits"
    match task.status:
        case Status.CLOSED:
            return f"run `fleet merge {task.id}` to merge its work; {frees}."
        case Status.BLOCKED:
            return f"run `fleet retry {task.id}` to let its agent continue; {frees}."
        case _:
            return f"run `fleet tasks` to see why it waits; {frees}."


def _mode(settings: Settings, terms: CreateOptions) -> tuple[str, list[str]]:
    if terms.headless or settings.agent.mode == HEADLESS:
        return HEADLESS, []
    if find_program("tmux") is not None:
        return INTERACTIVE, []
    if settings.agent.mode == INTERACTIVE:
        raise FleetError("tmux is not installed", hint="install tmux, or pass --headless")
    return HEADLESS, ["tmux is not installed: the agents run headless"]


def _mode_of(wish: AgentRequest, settings: Settings, usual: str, notes: list[str]) -> str:
    """Return the mode of one agent: the usual mode, or headless if its coder cannot run in a terminal."""
    coder = coders.load(_coder_of(wish) or settings.coder, settings)
    if usual == HEADLESS or coder.has_screen:
        return usual
    note = f"{coder.name} runs headless: fleet cannot run it in a terminal"
    notes += [] if note in notes else [note]
    return HEADLESS


def _lacks(fleet: Fleet, wish: AgentRequest, settings: Settings) -> str:
    """Return why this host cannot start the agent.

    Return "" if the queue is shared, since another host may have the coder.
    """
    name = _coder_of(wish) or settings.coder
    why = "" if fleet.store.is_shared else not_installed(name, settings)
    return f"{name} is not installed: {why}" if why else ""


def _coder_of(wish: AgentRequest) -> str:
    return wish.coder or os.environ.get("FLEET_CODER", "")


def _fields(wish: AgentRequest, settings: Settings, mode: str) -> dict[str, str]:
    if not wish.prompt and mode == HEADLESS:
        raise UsageError(f"{wish.branch} has no prompt", hint="pass a prompt: -p PROMPT")
    coder = _coder_of(wish)
    return {
        "title": _title(wish),
        "description": wish.prompt,
        "branch": wish.branch,
        "mode": mode,
        "coder": coders.known(coder, described=settings.coders) if coder else "",
        "model": checks.model(wish.model or os.environ.get("FLEET_MODEL", "")),
    }


def _title(wish: AgentRequest) -> str:
    first = next((line.strip() for line in wish.prompt.splitlines() if line.strip()), "")
    words = "".join(char for char in first if char.isprintable())
    return (words[: LONGEST_TITLE - 1] + "…" if len(words) > LONGEST_TITLE else words) or wish.branch
