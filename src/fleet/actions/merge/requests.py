"""Pull requests: push a task's branch and open a request with its receipt as the text. Later receipts become comments.

What was posted is recorded where no agent can write, so that each receipt is posted once.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING, Any, NamedTuple

from fleet.actions.control.fetch import workspace_here
from fleet.actions.merge.request_text import hide_places, text_of, title_of
from fleet.actions.tasks.names import ANYWHERE, find_task
from fleet.actions.tasks.rights import refuse_agents
from fleet.core.branch import check_branch
from fleet.core.errors import FleetError, IllegalMove
from fleet.core.redaction import Redactor, secret_values
from fleet.files import atomic_write, make_private
from fleet.git.remote import choose_remote, push, users_environment
from fleet.git.repository import Repository
from fleet.git.view import View
from fleet.settings import load
from fleet.supervisor.trust import changed_repository

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.actions.tasks.names import NameScope
    from fleet.assembly import Fleet
    from fleet.core.task import Caller, Task
    from fleet.core.workspace import Workspace


PROGRAM = "gh"
PATIENCE_SECONDS = 120.0
#: Settings that make `gh` suitable for programs: no prompts, color, update notices or pager.
FOR_PROGRAMS = {"GH_PROMPT_DISABLED": "1", "NO_COLOR": "1", "GH_NO_UPDATE_NOTIFIER": "1", "GH_PAGER": "cat"}
MOST_LISTED = 20


class OpenedRequest(NamedTuple):
    """An open pull request."""

    number: int
    url: str


class Gh:
    """The user's own `gh`, in one repository."""

    def __init__(self, top: str) -> None:
        self._top = top
        self._program = shutil.which(PROGRAM)

    @property
    def is_there(self) -> bool:
        return self._program is not None

    def find(self, branch: str) -> OpenedRequest | None:
        """Return the open request of a branch of this repository. Ignore branches with the same name in forks.

        Return None if no request is open. Raises FleetError.
        """
        fields = "number,url,headRefName,isCrossRepository"
        words = ("pr", "list", "--head", branch, "--state", "open", "--limit", str(MOST_LISTED), "--json", fields)
        told = self._run(words)
        try:
            rows = [row for row in json.loads(told or "[]") if not row.get("isCrossRepository")]
            found = [OpenedRequest(int(row["number"]), str(row["url"])) for row in rows if row["headRefName"] == branch]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise FleetError("gh did not list the pull requests", hint="run `gh pr list` to see the reason") from error
        return found[0] if found else None

    def open(self, words: Sequence[str], text: str) -> str:
        told = self._run((*words, "--body-file", "-"), text).split()
        return next((word for word in reversed(told) if "://" in word), "")

    def comment(self, number: int, text: str) -> None:
        self._run(("pr", "comment", str(number), "--body-file", "-"), text)

    def _run(self, words: Sequence[str], text: str = "") -> str:
        argv = [self._program or PROGRAM, *words]
        try:
            done = subprocess.run(
                argv,
                cwd=self._top,
                env=users_environment() | FOR_PROGRAMS,
                input=text.encode("utf-8", "replace"),
                capture_output=True,
                timeout=PATIENCE_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise FleetError(f"gh {words[0]} {words[1]} failed: {error}") from error
        if done.returncode:
            said = Redactor().text(done.stderr.decode(errors="replace")).strip().splitlines()
            why = said[-1] if said else f"it ended with {done.returncode}"
            raise FleetError(f"gh {words[0]} {words[1]} failed: {why}", hint="run `gh auth status` to check the login")
        return done.stdout.decode(errors="replace")


def opening(branch: str, title: str, *, base: str, draft: bool) -> tuple[str, ...]:
    """Return the arguments that open a request, without its text."""
    words = ("pr", "create", "--head", branch, "--title", title)
    return (*words, *(("--base", base) if base else ()), *(("--draft",) if draft else ()))


#: The kind of the record of posted texts.
KIND = "pull request"
#: The file in the task's folder that holds the text if `gh` is missing.
FILE = "pull-request.md"


class PullRequestOutcome:
    """The names of the possible results."""

    OPENED = "opened"
    COMMENTED = "commented"
    UNCHANGED = "unchanged"  # it is open and already contains this text
    PREPARED = "prepared"  # gh is missing, so the user runs the command
    WOULD = "would open or comment"  # a dry run


class RequestOptions(NamedTuple):
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


class PullRequest(NamedTuple):
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
    fleet: Fleet, name: str, wish: RequestOptions, *, by: str, caller: Caller | None = None, scope: NameScope = ANYWHERE
) -> PullRequest:
    """Push a task's branch and open its request, or comment on the open one.

    Raises TaskNotFound, UsageError, BadInput, FleetError, and IllegalMove if the task is being worked on.
    """
    refuse_agents(caller, "open pull requests")
    made = prepare(fleet, find_task(fleet, name, scope=scope, exact=True), wish)
    if wish.dry_run:
        return PullRequest(made, PullRequestOutcome.WOULD, _known(fleet, made).get("url", ""))
    said = tuple(push(made.repository, made.remote, made.commit, made.branch))
    gh = Gh(made.repository.top)
    if not gh.is_there:
        return PullRequest(made, PullRequestOutcome.PREPARED, command=_command(fleet, made), said=said)
    did, url = _told(fleet, made, gh)
    fleet.store.trust.set(KIND, _key(made), json.dumps({"url": url, "told": made.mark}), by)
    return PullRequest(made, did, url, said=said)


def prepare(fleet: Fleet, key: str, wish: RequestOptions) -> Request:
    """Collect everything needed before the push. Raises BadInput, IllegalMove, FleetError."""
    task = fleet.store.tasks.get(key)
    space = workspace_here(fleet, task)
    if space is None:
        raise FleetError(f"{key} has no branch", hint="pass a task with its own branch")
    repository = Repository(top=space.repo, common=space.common)
    if changes := changed_repository(fleet.store, repository):
        raise FleetError(
            f"{space.repo} changed since you trusted it: {'; '.join(changes[:3])}",
            hint="inspect the changes, then run `fleet trust` in it: a push obeys its settings",
        )
    runs, receipts = fleet.store.runs.of_task(key), fleet.store.receipts.of_task(key)
    if runs and runs[-1].is_live and not wish.draft:
        raise IllegalMove(
            f"{key} is still working on {space.branch}",
            hint=f"run `fleet wait {key}`, or pass --draft to publish the current state",
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
        raise FleetError(
            f"branch {space.branch} is gone", hint="run `git for-each-ref refs/fleet` to list the saved refs"
        )
    if commit == space.base_commit:
        raise FleetError(
            f"branch {space.branch} has no new commit", hint=f"run `fleet receipt {space.task_id}` to see why"
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
            return PullRequestOutcome.OPENED, gh.open(made.words, made.text)
        if _known(fleet, made) == {"url": found.url, "told": made.mark}:
            return PullRequestOutcome.UNCHANGED, found.url
        gh.comment(found.number, made.text)
    except FleetError as error:
        raise FleetError(f"{made.branch} was pushed to {made.remote}, but {error}", hint=error.hint) from error
    return PullRequestOutcome.COMMENTED, found.url


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
