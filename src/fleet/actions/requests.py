"""Pull requests: push a task's branch and open a request with its receipt as the text. Later receipts become comments.

What was posted is recorded where no agent can write, so that each receipt is posted once.
"""

from __future__ import annotations

import json
import os
import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

from fleet.actions.fetch_elsewhere import workspace_here
from fleet.actions.names import ANYWHERE, find_task
from fleet.actions.request_text import hide_places, text_of, title_of
from fleet.actions.request_tool import PROGRAM, Gh, opening
from fleet.actions.rights import refuse_agents
from fleet.config import load
from fleet.core.branch import check_branch
from fleet.core.errors import FleetError, IllegalMove
from fleet.core.redaction import Redactor, secret_values
from fleet.engine.trusting import changed_repository
from fleet.files import atomic_write, make_private
from fleet.workspaces.pushing import choose_remote, push
from fleet.workspaces.repository import Repository
from fleet.workspaces.view import View

if TYPE_CHECKING:
    from fleet.actions.names import Scope
    from fleet.assembly import Fleet
    from fleet.core.task import Caller, Task
    from fleet.core.workspace import Workspace

#: The kind of the record of posted texts.
KIND = "pull request"
#: The file in the task's folder that holds the text if `gh` is missing.
FILE = "pull-request.md"


class Did:
    """The names of the possible results."""

    OPENED = "opened"
    COMMENTED = "commented"
    UNCHANGED = "unchanged"  # it is open and already contains this text
    PREPARED = "prepared"  # gh is missing, so the user runs the command
    WOULD = "would open or comment"  # a dry run


class Wish(NamedTuple):
    """The user's options."""

    base: str = ""
    remote: str = ""
    draft: bool = False
    dry_run: bool = False
    output: bool = False  # quote the verify command's output


class Request(NamedTuple):
    """A request to open: what to push, where to push it, and the text."""

    task: Task
    repository: Repository
    branch: str
    commit: str
    remote: str
    base: str  # empty: the default branch of the forge
    title: str
    text: str
    finding: str
    mark: str  # identifies the text: the receipt's hash, or the commit if no receipt exists
    draft: bool

    @property
    def words(self) -> tuple[str, ...]:
        """Return the arguments for `gh` that open the request."""
        return opening(self.branch, self.title, base=self.base, draft=self.draft)


class Requested(NamedTuple):
    """The result of a request."""

    request: Request
    did: str
    url: str = ""
    command: str = ""  # the command that the user has to run
    said: tuple[str, ...] = ()  # output of the remote during the push

    def view(self) -> dict[str, Any]:
        made = self.request
        return {
            "task": made.task.id,
            "branch": made.branch,
            "commit": made.commit,
            "remote": made.remote,
            "base": made.base or None,
            "did": self.did,
            "url": self.url or None,
            "command": self.command or None,
            "finding": made.finding or None,
            "title": made.title,
            "text": made.text,
        }


def request(
    fleet: Fleet, name: str, wish: Wish, *, by: str, caller: Caller | None = None, scope: Scope = ANYWHERE
) -> Requested:
    """Push a task's branch and open its request, or comment on the open one.

    Raises TaskNotFound, Usage, BadInput, FleetError, and IllegalMove if the task is being worked on.
    """
    refuse_agents(caller, "open pull requests")
    made = prepare(fleet, find_task(fleet, name, scope=scope, exact=True), wish)
    if wish.dry_run:
        return Requested(made, Did.WOULD, _known(fleet, made).get("url", ""))
    said = tuple(push(made.repository, made.remote, made.commit, made.branch))
    gh = Gh(made.repository.top)
    if not gh.is_there:
        return Requested(made, Did.PREPARED, command=_command(fleet, made), said=said)
    did, url = _told(fleet, made, gh)
    fleet.store.trust.set(KIND, _key(made), json.dumps({"url": url, "told": made.mark}), by)
    return Requested(made, did, url, said=said)


def prepare(fleet: Fleet, key: str, wish: Wish) -> Request:
    """Collect everything needed before the push. Raises BadInput, IllegalMove, FleetError."""
    task = fleet.store.tasks.get(key)
    space = workspace_here(fleet, task)
    if space is None:
        raise FleetError(f"{key} has no branch", hint="only tasks with a branch of their own have something to push.")
    repository = Repository(top=space.repo, common=space.common)
    if changes := changed_repository(fleet.store, repository):
        raise FleetError(
            f"{space.repo} is not as it was trusted: {'; '.join(changes[:3])}",
            hint="`fleet trust` in it, once you have looked: a push obeys its settings.",
        )
    runs, receipts = fleet.store.runs.of_task(key), fleet.store.receipts.of_task(key)
    if runs and runs[-1].is_live and not wish.draft:
        raise IllegalMove(
            f"{key} is still at work on {space.branch}", hint=f"`fleet wait {key}`, or --draft for what there is."
        )
    view = View(fleet.home, repository)
    commit = _commit(view, space)
    remote = choose_remote(repository, wish.remote)
    receipt = receipts[-1] if receipts else None
    redact = Redactor(secret_values(os.environ)).text
    places = (space.path, space.repo, fleet.home.root, os.path.expanduser("~"))  # noqa: PTH111
    text = redact(hide_places(text_of(task, receipt, runs, commit=commit, output=wish.output), places))
    return Request(
        task=task,
        repository=repository,
        branch=space.branch,
        commit=commit,
        remote=remote,
        base=_base(fleet, view, space, remote, wish.base),
        title=redact(hide_places(title_of(task), places)),
        text=text,
        finding=receipt.finding if receipt else task.finding,
        mark=receipt.hash if receipt else commit,
        draft=wish.draft,
    )


def _commit(view: View, space: Workspace) -> str:
    check_branch(space.branch)
    commit = view.commit_of(f"refs/heads/{space.branch}")
    if commit is None:
        raise FleetError(f"branch {space.branch} is gone", hint="`git for-each-ref refs/fleet` shows what is kept.")
    if commit == space.base_commit:
        raise FleetError(
            f"branch {space.branch} has no commit of its own", hint=f"`fleet receipt {space.task_id}` says why."
        )
    return commit


def _base(fleet: Fleet, view: View, space: Workspace, remote: str, said: str) -> str:
    """Return the branch to merge into: as given, as in the settings, or the starting branch if the remote has it.

    Return "" for the forge's default.
    """
    if wanted := said or load(fleet.home, space.repo).merge.into or "":
        check_branch(wanted)
        return wanted
    known = space.base and view.commit_of(f"refs/remotes/{remote}/{space.base}")
    return space.base if known else ""


def _told(fleet: Fleet, made: Request, gh: Gh) -> tuple[str, str]:
    """Open the request, or comment on it if the receipt is new. Return what was done and the URL."""
    try:
        found = gh.find(made.branch)
        if found is None:
            return Did.OPENED, gh.open(made.words, made.text)
        if _known(fleet, made) == {"url": found.url, "told": made.mark}:
            return Did.UNCHANGED, found.url
        gh.comment(found.number, made.text)
    except FleetError as error:
        raise FleetError(f"{made.branch} was pushed to {made.remote}, but {error}", hint=error.hint) from error
    return Did.COMMENTED, found.url


def _known(fleet: Fleet, made: Request) -> dict[str, str]:
    """Return what was last posted about the task, and its URL."""
    found = json.loads(fleet.store.trust.get(KIND, _key(made)) or "{}")
    return found if isinstance(found, dict) else {}


def _key(made: Request) -> str:
    return f"{made.task.id} {made.remote}"


def _command(fleet: Fleet, made: Request) -> str:
    """Write the text to a file. Return the command for the user to run where `gh` is installed."""
    path = f"{fleet.home.task(made.task.id)}/{FILE}"
    make_private(fleet.home.task(made.task.id))
    atomic_write(path, made.text.encode("utf-8", "replace"), 0o600)
    return shlex.join((PROGRAM, *made.words, "--body-file", path))
