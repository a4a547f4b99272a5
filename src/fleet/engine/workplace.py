"""Opening the workspace of a task: its directory, or a worktree that is made and made ready for it."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, NamedTuple

from fleet.core.branch import folder_of
from fleet.core.errors import BranchTaken, FleetError, IllegalMove
from fleet.core.jsontext import encode
from fleet.core.task import MADE_HERE, WORKTREE
from fleet.core.workspace import Workspace
from fleet.engine import removal
from fleet.engine.commands import run_command
from fleet.engine.environment import Place, setup_environment
from fleet.engine.strays import left_after_a_while
from fleet.engine.trusting import changed_repository, untrusted_commands
from fleet.engine.work import Work
from fleet.files import make_private
from fleet.workspaces import worktree
from fleet.workspaces.branches import base_name, checked_base
from fleet.workspaces.commits import is_ancestor
from fleet.workspaces.deleting import NotDeleted
from fleet.workspaces.files import copy_in
from fleet.workspaces.mirror import repository_at
from fleet.workspaces.ports import free_block
from fleet.workspaces.refs import branch_tip
from fleet.workspaces.repository import Repository, RepositoryGone, find_repository, refuse_gone
from fleet.workspaces.view import View

if TYPE_CHECKING:
    from typing import Any

    from fleet.config import Settings
    from fleet.core.task import Claim, Task
    from fleet.engine.context import Context
    from fleet.engine.folder import TaskFolder
    from fleet.home import Home
    from fleet.store.base import Store
    from fleet.workspaces.files import Copied

log = logging.getLogger(__name__)

UNSEEN = "mount its disk or put the folder back, then run `fleet retry`; `fleet kill` removes what is left."

#: As long as a removal may take.
REMOVAL_SECONDS = 5.0
#: How long a task waits while an agent of an earlier run of its lives.
LIVES_SECONDS = 30.0


class NotNow(FleetError):
    """A run cannot begin, which is not its task's fault: it goes back, uncounted."""

    def __init__(self, message: str, *, seconds: float, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.seconds = seconds


class NotReady(FleetError):
    """A workspace could not be made ready; a person has to look."""


class Stopped(FleetError):
    """Somebody stopped the task while its workspace was made ready."""


class Furnished(NamedTuple):
    """A worktree that was made."""

    admin: str  # git's folder about it
    copied: Copied


async def open_place(
    context: Context, claim: Claim, task: Task, settings: Settings, folder: TaskFolder, stop: asyncio.Event
) -> Place:
    """The directory a run of this task works in, made ready where it is a worktree. Raises FleetError, OSError."""
    if task.workspace != WORKTREE:
        cwd = task.cwd or folder.make_work()
        if not is_there(cwd):
            raise FleetError(
                f"its directory {cwd} does not exist", hint="`fleet bd update ID --cwd DIR` names another."
            )
        return Place(cwd)
    return await _Opening(context, claim, task, settings, folder, stop).open()


async def be_alone(folder: TaskFolder) -> None:
    """Wait until nothing of the task's earlier runs lives. Raises NotNow: there is never a second agent."""
    if alive := await asyncio.to_thread(left_after_a_while, folder.path):
        raise NotNow(f"the agent of {folder.task_id}/{alive[-1]} still lives", seconds=LIVES_SECONDS)


def is_there(path: str) -> bool:
    """Whether there is a directory at a path."""
    return os.path.isdir(path)  # noqa: PTH112


def is_seen(path: str) -> bool:
    """Whether the folder of a worktree is surely gone where there is none: not so on a disk that is not mounted."""
    return is_there(os.path.dirname(path))  # noqa: PTH120


def branch_of(task: Task) -> str:
    """The branch of a task, which one that was made with `bd create` does not name."""
    return task.branch or f"fleet/{task.id}"


def _size_and_time(path: str) -> list[int]:
    found = os.lstat(path)
    return [found.st_size, found.st_mtime_ns]


def worktree_path(home: Home, repository: Repository, settings: Settings, branch: str) -> str:
    """Where the worktree of a branch lies: outside of the repository, one folder for each repository."""
    root = settings.project.worktree_root
    place = home.worktrees
    if root:
        place = os.path.join(repository.top, os.path.expanduser(root))  # noqa: PTH111, PTH118
    return os.path.join(place, repository.key, folder_of(branch))  # noqa: PTH118


def adopt_workspace(store: Store, task_id: str, owner: str) -> Workspace | None:
    """Return the workspace of an adopted run, now of this owner.

    Another supervisor of this machine may have had it.
    """
    space = store.workspaces.get(task_id)
    if space is None or space.lies_on(owner) or space.is_gone or not is_there(space.path):
        return space
    ours = space.replace(notes=encode(space.made | {"host": owner}))
    store.workspaces.save(ours)
    return ours


def verify_folder(home: Home) -> str:
    """Where work is verified: what is checked out there is for no agent to see or to rewrite."""
    make_private(home.verify)
    return home.verify


def repository_of(home: Home, task: Task) -> Repository:
    """The repository in which a task with a worktree works on this host. Raises FleetError, RepositoryGone."""
    if task.remote:  # it has arrived already
        return repository_at(home, task.repo, task.remote, task.base)
    if task.repo:
        refuse_gone(task.repo)  # else a repository around its old place would be found
    elif not is_there(task.cwd):
        raise RepositoryGone(task.cwd)
    return find_repository(task.repo or task.cwd)


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


class _Opening:
    """One worktree on its way."""

    def __init__(
        self, context: Context, claim: Claim, task: Task, settings: Settings, folder: TaskFolder, stop: asyncio.Event
    ) -> None:
        self._context, self._claim, self._task, self._settings = context, claim, task, settings
        self._folder, self._stop = folder, stop
        self._is_new = False

    async def open(self) -> Place:
        context, task = self._context, self._task
        store = context.store
        repository = await asyncio.to_thread(repository_of, context.home, task)
        self._task, known, own = await store.call(self._known, repository)
        if known is not None:
            return Place(known.path, known)
        wanted, tip = await asyncio.to_thread(self._wanted, repository, View(context.home, repository), own)
        leased = await self._lease(wanted)
        # One that is not new may have been begun and left by a supervisor that was killed.
        self._is_new = leased.made_at == wanted.made_at
        furnished = await asyncio.to_thread(self._make, repository, tip, leased)
        leased = await self._set_up(repository, leased, furnished)
        await store.call(store.workspaces.save, leased)
        return Place(leased.path, leased)

    async def _lease(self, wanted: Workspace) -> Workspace:
        store = self._context.store
        try:
            return await store.call(store.workspaces.lease, wanted, ports=self._free_ports)
        except BranchTaken as error:
            raise NotReady(str(error), hint=error.hint) from error
        except IllegalMove as error:  # somebody is just removing it
            raise NotNow(str(error), seconds=REMOVAL_SECONDS) from error

    def _known(self, repository: Repository) -> tuple[Task, Workspace | None, str]:
        """The task with all that it names, and its worktree if that is ready; else it may be made. Raises NotReady.

        Then also where the task once began on its branch, if it did.
        """
        task, context = self._placed(repository), self._context
        store = context.store
        known = store.workspaces.get(task.id)
        if known is not None and not known.is_gone and known.is_ready and is_there(known.path):
            return task, known, ""
        self._check_trust(repository)
        return task, None, own_beginning(store.ports, repository, task, known)

    def _placed(self, repository: Repository) -> Task:
        """The task with its repository and branch, which one that was made with `bd create` does not name."""
        task, context = self._task, self._context
        store = context.store
        if task.repo == repository.top and task.branch:
            return task
        # A task that travels is about the repository of its maker, wherever it works.
        named = {"repo": task.repo if task.remote else repository.top, "branch": branch_of(task)}
        if named == {"repo": task.repo, "branch": task.branch}:
            return task
        with store.atomic():
            store.tasks.save(store.tasks.get(task.id).replace(**named))
        return task.replace(**named)

    def _check_trust(self, repository: Repository) -> None:
        changed = changed_repository(self._context.store.ports, repository)
        if changed:
            raise NotReady(
                f"git's settings of {repository.top} changed since they were trusted: {', '.join(changed[:5])}",
                hint="look at them; `fleet trust` there accepts them.",
            )
        commands = untrusted_commands(self._settings, quick=self._is_quick)
        if commands:
            raise NotReady(
                f"the project file of {repository.top} has commands that you have not trusted: {commands[0]}",
                hint="`fleet trust` there accepts them; `--quick` goes without.",
            )

    @property
    def _is_quick(self) -> bool:
        return bool(self._settings.setup.quick or self._task.metadata.get("quick"))

    def _wanted(self, repository: Repository, view: View, own: str) -> tuple[Workspace, str | None]:
        """The worktree to be made, and where its branch is, if that is there."""
        task = self._task
        tip = branch_tip(repository, task.branch)
        base = self._base(repository, view) if tip is None else beginning(view, tip, own)
        wanted = Workspace(
            task_id=task.id,
            repo=repository.top,
            common=repository.common,
            path=worktree_path(self._context.home, repository, self._settings, task.branch),
            branch=task.branch,
            base=task.base,
            base_commit=base,
            made_branch=tip is None,
            made_at=self._context.now(),
            notes=encode(self._context.cluster.describe_place(self._task, repository)),
            port_count=self._settings.ports.count,
        )
        return wanted, tip

    def _base(self, repository: Repository, view: View) -> str:
        """The commit that a new branch begins at."""
        task = self._task
        if task.origin in MADE_HERE:  # `create` has found it already, while the user could still be told
            return task.base
        (found,) = view.resolve(base_name(repository, task.base))
        return checked_base(repository, view, task.base, found)

    def _free_ports(self, taken: frozenset[int]) -> int:
        return free_block(self._settings.ports.base, self._settings.ports.count, taken)

    def _make(self, repository: Repository, tip: str | None, leased: Workspace) -> Furnished:
        """The worktree itself. What a killed attempt left is made again: no agent was in it.

        Everything else is saved first: the folder of a worktree that is not on record, and what git still holds of one
        whose folder was deleted. Raises NotReady where that cannot be.
        """
        home = self._context.home
        if not self._is_new and leased.ready_at is not None and not is_seen(leased.path):
            raise NotReady(f"its worktree {leased.path} cannot be seen: the folder above it is missing", hint=UNSEEN)
        if not self._is_new or os.path.lexists(leased.path):
            if self._is_new or leased.ready_at is not None:
                self._save_and_remove(leased)
            else:
                removal.discard(home, leased)
        make_private(os.path.dirname(leased.path))  # noqa: PTH120
        made = worktree.add(
            home,
            repository,
            path=leased.path,
            branch=leased.branch,
            base_commit=leased.base_commit,
            made=tip in (None, leased.base_commit) and leased.made_branch,
        )
        Work(home, leased).take_index(made.admin)
        log.info("made %s on %s", leased.path, leased.branch)
        copied = copy_in(repository.top, leased.path, self._settings.setup.credential_files)
        return Furnished(made.admin, copied)

    def _save_and_remove(self, leased: Workspace) -> None:
        try:
            saved = removal.save_and_remove(self._context.home, leased, 0, self._settings.saving, with_ignored=True)
        except NotDeleted:  # it was saved
            raise
        except FleetError as error:
            raise NotReady(f"what is in {leased.path} cannot be saved: {error}", hint=error.hint) from error
        for command in saved.commands:
            self._folder.log("saved", path=leased.path, command=command)
            log.warning("%s: saved what was in %s: %s", leased.branch, leased.path, command)

    async def _set_up(self, repository: Repository, leased: Workspace, furnished: Furnished) -> Workspace:
        setup, copied, admin = self._settings.setup, furnished.copied, furnished.admin
        commands = () if self._is_quick else setup.commands
        for number, command in enumerate(commands, 1):
            await self._run(number, command, leased)
        if copied.refused:
            log.warning("%s: not copied: %s", leased.branch, "; ".join(copied.refused))
        notes: dict[str, Any] = {"admin": admin, "missing": copied.missing, "refused": copied.refused}
        notes |= self._context.cluster.describe_place(self._task, repository)
        if not commands:  # they may have staged something
            notes["index"] = _size_and_time(os.path.join(admin, "index"))  # noqa: PTH118
        if commands or copied.copied:
            await asyncio.to_thread(Work(self._context.home, leased).note_made, copied.copied)
        return leased.replace(ready_at=self._context.now(), notes=encode(notes))

    async def _run(self, number: int, command: str, leased: Workspace) -> None:
        context, task = self._context, self._task
        env = setup_environment(context.home, task, leased, self._settings.agent.pass_env)
        self._folder.log("setup_started", command=command)
        done = await run_command(
            context.launchers.headless,
            os.path.join(self._folder.path, "setup", str(number)),  # noqa: PTH118
            command,
            cwd=leased.path,
            env=env,
            seconds=self._settings.setup.seconds,
            stop=self._stop,
        )
        self._folder.log("setup_ended", command=command, status=done.status, seconds=done.seconds)
        if self._stop.is_set():
            raise Stopped("stopped while it was set up")
        if not done.ok:
            raise FleetError(
                f"setup {self._folder.clean(done.in_words)}",
                hint="`--quick` goes without setup commands.",
            )
