"""Open the workspace of a task: its directory, or a worktree that is created and set up for it."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from typing import TYPE_CHECKING, NamedTuple

from fleet.core.branch import folder_of
from fleet.core.errors import BranchTaken, FleetError, IllegalMove
from fleet.core.jsontext import encode
from fleet.core.task import MADE_HERE, NOT_TRUSTED, TRUST_CHANGED, WORKTREE
from fleet.core.workspace import Workspace
from fleet.files import make_private
from fleet.git import worktree
from fleet.git.branches import base_name, checked_base
from fleet.git.commits import is_ancestor
from fleet.git.copied_files import copy_in
from fleet.git.mirror import repository_at
from fleet.git.repository import Repository, RepositoryGone, find_repository, refuse_gone
from fleet.git.untrusted_folders import NotDeleted
from fleet.git.view import View, branch_tip
from fleet.proof.verify import using
from fleet.supervisor import removal
from fleet.supervisor.run.commands import run_command
from fleet.supervisor.run.environment import RunPlace, setup_environment
from fleet.supervisor.run.work import Work
from fleet.supervisor.strays import left_after_a_while
from fleet.supervisor.trust import changed_repository, untrusted_commands

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    from fleet.core.task import Claim, Task
    from fleet.git.copied_files import CopiedFiles
    from fleet.home import Home
    from fleet.settings import Settings
    from fleet.store.base import Store
    from fleet.supervisor.context import Context
    from fleet.supervisor.task_folder import TaskFolder


#: Linux assigns outgoing connections ports from here on, which could block a server there by chance.
EPHEMERAL = 32768


def free_block(first: int, count: int, taken: Collection[int]) -> int:
    """Return the first port of a block of `count` that is neither leased nor in use. Raises FleetError.

    Blocks follow each other from `first` upwards, below the ports that Linux assigns to outgoing connections. If
    `first` is itself above that limit, blocks may go up to the last port.
    """
    return choose_block(first, count, taken, _is_free)


def choose_block(first: int, count: int, taken: Collection[int], is_free: Callable[[int], bool]) -> int:
    """Return the same, with `is_free` deciding whether a port is free."""
    end = EPHEMERAL if first < EPHEMERAL else 65536
    leased = frozenset(taken)
    for start in range(first, end - count + 1, count):
        block = range(start, start + count)
        if leased.isdisjoint(block) and all(is_free(port) for port in block):
            return start
    raise FleetError(
        f"no {count} free ports in a row from {first} up to {end - 1}",
        hint="`fleet gc` gives back those of finished agents; ports.base and ports.count choose others",
    )


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # A port with only lingering old connections is free for a server.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            return False
    return True


log = logging.getLogger(__name__)

UNSEEN = "mount its disk or put the folder back, then run `fleet retry`; `fleet kill` removes what is left."

#: How long a removal may take.
REMOVAL_SECONDS = 5.0
#: How long a task waits while an agent of its earlier run lives.
LIVES_SECONDS = 30.0


class RetryLater(FleetError):
    """A run cannot start for a reason outside of its task. The task goes back to the queue uncounted."""

    def __init__(self, message: str, *, seconds: float, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.seconds = seconds


class NotReady(FleetError):
    """A workspace could not be set up, and a user must act."""


class SetupStopped(FleetError):
    """A user stopped the task while its workspace was being set up."""


class OpenedWorkspace(NamedTuple):
    """A worktree that was created."""

    admin: str  # git's administrative folder
    copied: CopiedFiles


async def open_place(
    context: Context, claim: Claim, task: Task, settings: Settings, folder: TaskFolder, stop: asyncio.Event
) -> RunPlace:
    """Return the directory for a run of this task, after setting up a worktree if needed.

    Raises FleetError, OSError.
    """
    if task.workspace != WORKTREE:
        cwd = task.cwd or folder.make_work()
        if not is_there(cwd):
            raise FleetError(
                f"its directory {cwd} does not exist",
                hint="run `fleet bd update ID --cwd DIR` to set another directory",
            )
        return RunPlace(cwd)
    return await _Opening(context, claim, task, settings, folder, stop).open()


async def be_alone(folder: TaskFolder) -> None:
    """Wait until no process of the task's earlier runs lives, as two agents must never share it. Raises RetryLater."""
    if alive := await asyncio.to_thread(left_after_a_while, folder.path):
        raise RetryLater(f"the agent of {folder.task_id}/{alive[-1]} still lives", seconds=LIVES_SECONDS)


def is_there(path: str) -> bool:
    """Return True if a directory exists at `path`."""
    return os.path.isdir(path)  # noqa: PTH112


def is_seen(path: str) -> bool:
    """Return True if a missing worktree is certainly gone.

    A missing parent folder suggests an unmounted disk instead.
    """
    return is_there(os.path.dirname(path))  # noqa: PTH120


def branch_of(task: Task) -> str:
    """Return the branch of a task. A task created with `bd create` names none, so it is `fleet/<id>`."""
    return task.branch or f"fleet/{task.id}"


def _size_and_time(path: str) -> list[int]:
    found = os.lstat(path)
    return [found.st_size, found.st_mtime_ns]


def worktree_path(home: Home, repository: Repository, settings: Settings, branch: str) -> str:
    """Return the path of a branch's worktree: outside of the repository, with one folder for each repository."""
    root = settings.project.worktree_root
    place = home.worktrees
    if root:
        place = os.path.join(repository.top, os.path.expanduser(root))  # noqa: PTH111, PTH118
    return os.path.join(place, repository.key, folder_of(branch))  # noqa: PTH118


def adopt_workspace(store: Store, task_id: str, owner: str) -> Workspace | None:
    """Return the workspace of an adopted run, now assigned to this owner.

    Another supervisor of this machine may have had the workspace.
    """
    space = store.workspaces.get(task_id)
    if space is None or space.lies_on(owner) or space.is_gone or not is_there(space.path):
        return space
    ours = space.replace(notes=encode(space.made | {"host": owner}))
    store.workspaces.save(ours)
    return ours


def verify_folder(home: Home) -> str:
    """Create and return the folder of verifications. Agents must not read or change the checkouts in it."""
    make_private(home.verify)
    return home.verify


def repository_of(home: Home, task: Task) -> Repository:
    """Return the repository where a task with a worktree works on this host. Raises FleetError, RepositoryGone."""
    if task.remote:  # already fetched
        return repository_at(home, task.repo, task.remote, task.base)
    if task.repo:
        refuse_gone(task.repo)  # otherwise git would find a repository around the old path
    elif not is_there(task.cwd):
        raise RepositoryGone(task.cwd)
    return find_repository(task.repo or task.cwd)


def own_beginning(store: Store, repository: Repository, task: Task, last: Workspace | None) -> str:
    """Return the base commit of the task's last worktree on its branch.

    Return "" if another task has had the branch since, or the task had no such worktree.
    """
    if last is None or last.branch != task.branch:
        return ""
    others = store.workspaces.find(common=repository.common, gone=True)
    since = (each for each in others if each.task_id != task.id and each.made_at > last.made_at)
    return "" if any(each.branch == task.branch for each in since) else last.base_commit


def beginning(view: View, tip: str, own: str) -> str:
    """Return the commit with which work on an existing branch is compared: the task's own base or the branch's tip."""
    if not own or view.resolve(own) == [None] or not is_ancestor(view, own, tip):  # the branch was recreated
        return tip
    return own


class _Opening:
    """The creation of one worktree."""

    def __init__(
        self, context: Context, claim: Claim, task: Task, settings: Settings, folder: TaskFolder, stop: asyncio.Event
    ) -> None:
        self._context, self._claim, self._task, self._settings = context, claim, task, settings
        self._folder, self._stop = folder, stop
        self._is_new = False

    async def open(self) -> RunPlace:
        context, task = self._context, self._task
        store = context.store
        repository = await asyncio.to_thread(repository_of, context.home, task)
        self._task, known, own = await store.call(self._known, repository)
        if known is not None:
            return RunPlace(known.path, known)
        wanted, tip = await asyncio.to_thread(self._wanted, repository, View(context.home, repository), own)
        leased = await self._lease(wanted)
        # An older record may belong to an attempt of a killed supervisor.
        self._is_new = leased.made_at == wanted.made_at
        furnished = await asyncio.to_thread(self._make, repository, tip, leased)
        leased = await self._set_up(repository, leased, furnished)
        await store.call(store.workspaces.save, leased)
        return RunPlace(leased.path, leased)

    async def _lease(self, wanted: Workspace) -> Workspace:
        store = self._context.store
        try:
            return await store.call(store.workspaces.lease, wanted, ports=self._free_ports)
        except BranchTaken as error:
            raise NotReady(str(error), hint=error.hint) from error
        except IllegalMove as error:  # another process is removing the worktree
            raise RetryLater(str(error), seconds=REMOVAL_SECONDS) from error

    def _known(self, repository: Repository) -> tuple[Task, Workspace | None, str]:
        """Return the task with repository and branch, its worktree if ready, and the task's own base. Raises NotReady.

        If the worktree is not ready, it may be created, and the base may be "".
        """
        task, context = self._placed(repository), self._context
        store = context.store
        known = store.workspaces.get(task.id)
        if known is not None and not known.is_gone and known.is_ready and is_there(known.path):
            return task, known, ""
        self._check_trust(repository)
        return task, None, own_beginning(store.ports, repository, task, known)

    def _placed(self, repository: Repository) -> Task:
        """Return the task with its repository and branch, which a task created with `bd create` does not name."""
        task, context = self._task, self._context
        store = context.store
        if task.repo == repository.top and task.branch:
            return task
        # A task with a remote keeps the repository of its maker, wherever it works.
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
                f"git's settings of {repository.top} changed {TRUST_CHANGED}: {', '.join(changed[:5])}",
                hint="inspect the changes, then run `fleet trust` there",
            )
        commands = untrusted_commands(self._settings, quick=self._is_quick)
        if commands:
            raise NotReady(
                f"the project file of {repository.top} has commands that {NOT_TRUSTED}: {commands[0]}",
                hint="run `fleet trust` there, or pass `--quick` to skip them",
            )

    @property
    def _is_quick(self) -> bool:
        return bool(self._settings.setup.quick or self._task.metadata.get("quick"))

    def _wanted(self, repository: Repository, view: View, own: str) -> tuple[Workspace, str | None]:
        """Return the worktree to create, and the tip of its branch. The tip is None if the branch does not exist."""
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
        """Return the commit where a new branch starts."""
        task = self._task
        if task.origin in MADE_HERE:  # `create` resolved the base while the user could see an error
            return task.base
        (found,) = view.resolve(base_name(repository, task.base))
        return checked_base(repository, view, task.base, found)

    def _free_ports(self, taken: frozenset[int]) -> int:
        return free_block(self._settings.ports.base, self._settings.ports.count, taken)

    def _make(self, repository: Repository, tip: str | None, leased: Workspace) -> OpenedWorkspace:
        """Create the worktree. The remains of a killed attempt are replaced: no agent worked there.

        Anything else is saved first: an unrecorded folder, or what git still holds of a worktree whose folder was
        deleted. Raises NotReady if saving fails.
        """
        home = self._context.home
        if not self._is_new and leased.ready_at is not None and not is_seen(leased.path):
            raise NotReady(f"its worktree {leased.path} cannot be seen: its parent folder is missing", hint=UNSEEN)
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
        Work(home, leased).take_index(made.admin, made.commit)
        log.info("made %s on %s", leased.path, leased.branch)
        copied = copy_in(repository.top, leased.path, self._settings.setup.credential_files)
        return OpenedWorkspace(made.admin, copied)

    def _save_and_remove(self, leased: Workspace) -> None:
        try:
            saved = removal.save_and_remove(self._context.home, leased, 0, self._settings.saving, with_ignored=True)
        except NotDeleted:  # already saved
            raise
        except FleetError as error:
            raise NotReady(f"cannot save the contents of {leased.path}: {error}", hint=error.hint) from error
        for command in saved.commands:
            self._folder.log("saved", path=leased.path, command=command)
            log.warning("%s: saved the contents of %s: %s", leased.branch, leased.path, command)

    async def _set_up(self, repository: Repository, leased: Workspace, furnished: OpenedWorkspace) -> Workspace:
        setup, copied, admin = self._settings.setup, furnished.copied, furnished.admin
        commands = () if self._is_quick else setup.commands
        for number, command in enumerate(commands, 1):
            await self._run(number, command, leased)
        if copied.refused:
            log.warning("%s: not copied: %s", leased.branch, "; ".join(copied.refused))
        notes: dict[str, Any] = {"admin": admin, "missing": copied.missing, "refused": copied.refused}
        notes |= self._context.cluster.describe_place(self._task, repository)
        if not commands:  # commands may have staged files
            notes["index"] = _size_and_time(os.path.join(admin, "index"))  # noqa: PTH118
        if use := self._settings.verify.use:  # before an agent can write there
            notes[using.NOTE] = await asyncio.to_thread(using.mark_folders, use, leased.path)
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
            raise SetupStopped("stopped during its setup")
        if not done.ok:
            raise FleetError(
                f"setup {self._folder.clean(done.in_words)}",
                hint="pass `--quick` to skip the setup commands",
            )
