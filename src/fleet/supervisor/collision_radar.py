"""The conflict radar: which branches of a repository collide, checked as the branches grow and kept in the store.

The radar is idle while no agent does anything. After activity it reads the refs of the repository, which needs no
process. It asks git only if a branch moved, outside the event loop. The longer that takes, the longer is the pause.
Only commits count: the radar does not see uncommitted work.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from fleet.coders.base import STDIN
from fleet.core.errors import FleetError
from fleet.core.filter import Filter
from fleet.core.ids import new_uuid
from fleet.core.run import Message
from fleet.core.task import MERGED
from fleet.core.workspace import Collision
from fleet.git.merge.collisions import BranchState, Collider, tips
from fleet.git.repository import Repository
from fleet.git.view import View

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from fleet.core.task import Task
    from fleet.core.workspace import Workspace
    from fleet.git.merge.collisions import Clash, CollisionCheck
    from fleet.home import Home
    from fleet.store.base import Store
    from fleet.supervisor.run.live import Live
    from fleet.supervisor.store_calls import StoreCalls


#: The author of such messages.
AUTHOR = "fleet (conflict radar)"
#: Maximum number of files to name.
MOST_NAMED = 10
LONGEST_NAME = 200


def wants_to_hear(live: Live | None) -> bool:
    """Return True if the settings allow it and the agent can receive a message without being stopped."""
    if live is None or not live.settings.merge.tell:
        return False
    return live.interactive or (live.coder.steering == STDIN and live.run.result_at is None)


def tell(store: Store, common: str, hearers: Collection[str]) -> bool:
    """Queue a message for each of `hearers` whose branch collides with an earlier branch, once per pair.

    Return True if a message was queued.
    """
    with store.atomic():
        branches = {space.task_id: space.branch for space in store.workspaces.find(common=common)}
        told = False
        for each in store.collisions.find(common=common):
            known = each.task_id in branches and each.other_id in branches
            if each.other_id in hearers and known and store.collisions.mark_told(each, store.now()):
                text = text_of(each, branches[each.task_id], branches[each.other_id])
                message = Message(id=new_uuid(), task_id=each.other_id, author=AUTHOR, text=text, queued_at=store.now())
                store.messages.add(message)
                told = True
        return told


def text_of(collision: Collision, earlier: str, own: str) -> str:
    """Return the message for the later agent."""
    return (
        f"Note from fleet: your branch {own} collides with branch {earlier} of another agent ({collision.task_id}), "
        f"which started first. git cannot merge both branches in their current state: {_named(collision.files)}. "
        f"Run `git diff {own}...{earlier} -- FILE` to see the changes of the other branch. If your task leaves you a "
        "choice, change your work so that both branches merge; otherwise continue. No other action is needed."
    )


def _named(files: Iterable[str]) -> str:
    """Return quoted file names that another agent chose: shortened, and without unprintable characters."""
    names = list(files)
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(f"'{_plain(name)}'" for name in names[:MOST_NAMED]) + more


def _plain(name: str) -> str:
    return "".join(char if char.isprintable() and char != "'" else "?" for char in name)[:LONGEST_NAME]


log = logging.getLogger(__name__)

#: Maximum share of the time for looks, and the minimum and maximum pause between two looks.
SHARE, LEAST_SECONDS, MOST_SECONDS = 1 / 50, 1.0, 10.0
#: How long no agent must have begun or ended before a look, and the maximum wait for that.
CALM_SECONDS, PATIENCE_SECONDS = 1.0, 10.0


class Radar:
    """The radar of one supervisor."""

    def __init__(
        self,
        store: StoreCalls,
        home: Home,
        owner: str,
        *,
        at_work: Callable[[str], Live | None],
        told: Callable[[], None],
    ) -> None:
        self._store, self._home, self._owner = store, home, owner
        # `at_work` returns the live run of a task, if any. `told` is called after an agent was told of a collision.
        self._at_work, self._told = at_work, told
        self._stirred: dict[str, float] = {}  # the repositories with activity, and since when
        self._moved_at = 0.0  # when an agent last began or ended
        self._due: dict[str, float] = {}
        self._watches: dict[str, WatchedRepository] = {}
        self._task: asyncio.Task[None] | None = None

    def wake(self, live: Live | None) -> None:
        """Note that an agent did something or ended."""
        if live is not None and live.workspace is not None:
            self._stirred.setdefault(live.workspace.common, asyncio.get_running_loop().time())

    def move(self) -> None:
        """Note that an agent begins or has ended, which causes more urgent work."""
        self._moved_at = asyncio.get_running_loop().time()

    def begin(self) -> None:
        """Start a look at repositories with activity if one is due. Does not wait for it."""
        if not self._stirred or self._task is not None:
            return
        now = asyncio.get_running_loop().time()
        is_calm = now - self._moved_at > CALM_SECONDS
        due = [
            common
            for common, since in self._stirred.items()
            if self._due.get(common, now) <= now and (is_calm or now - since > PATIENCE_SECONDS)
        ]
        if due:
            self._task = asyncio.create_task(self._look_at(due), name="radar")
            self._task.add_done_callback(self._over)

    async def end(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def _over(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:  # the supervisor continues without it
            log.error("the search for collisions failed", exc_info=error)

    async def _look_at(self, due: list[str]) -> None:
        loop = asyncio.get_running_loop()
        for common in due:
            self._stirred.pop(common, None)
            began = loop.time()
            try:
                await self._look(common)
            except (FleetError, OSError) as error:  # the repository may be gone, or its disk full
                log.info("no search for collisions in %s: %s", common, error)
            took = loop.time() - began
            self._due[common] = loop.time() + min(MOST_SECONDS, max(LEAST_SECONDS, took / SHARE))

    async def _look(self, common: str) -> None:
        store = self._store
        known = await store.call(store.workspaces.find, common=common)
        spaces = standing(each for each in known if each.lies_on(self._owner))
        if not spaces:
            self._watches.pop(common, None)
            await store.call(store.collisions.keep, common, [])
            return
        watch = self._watches.setdefault(common, WatchedRepository(self._home, spaces[0]))
        landed = await store.call(landed_tips, store.ports, spaces)
        found = await asyncio.to_thread(watch.look, spaces, landed)
        if found is None:
            return
        if not found.is_complete:
            self._stirred.setdefault(common, asyncio.get_running_loop().time())
        await store.call(keep, store.ports, common, found, store.now())
        await self._tell(common, spaces)

    async def _tell(self, common: str, spaces: list[Workspace]) -> None:
        store = self._store
        hearers = {space.task_id for space in spaces if wants_to_hear(self._at_work(space.task_id))}
        if not hearers:
            return
        if await store.call(tell, store.ports, common, hearers):
            self._told()


class WatchedRepository:
    """A repository and the branches seen at the last look."""

    def __init__(self, home: Home, space: Workspace) -> None:
        self._repository = Repository(top=space.repo, common=space.common)
        self._collider = Collider(View(home, self._repository))
        self._known: list[BranchState] | None = None

    def look(self, spaces: Sequence[Workspace], landed: Mapping[str, str]) -> CollisionCheck | None:
        """Return what collides. Return None if no branch moved since the last look. Raises FleetError, OSError."""
        branches = [each for each in self._branches(spaces) if landed.get(each.key) != each.tip]
        if branches == self._known:
            return None
        self._known = None
        found = self._collider.look(branches)
        if found.is_complete:
            self._known = branches
        return found

    def _branches(self, spaces: Sequence[Workspace]) -> list[BranchState]:
        at = tips(self._repository, (space.branch for space in spaces))
        return [BranchState(each.task_id, at[each.branch], each.base_commit) for each in spaces if each.branch in at]


def standing(spaces: Iterable[Workspace]) -> list[Workspace]:
    """Return the worktrees whose branches count: they exist, and their base commit is known."""
    return [each for each in spaces if each.base_commit and each.removing_at is None and not each.is_gone]


def landed_tips(store: Store, spaces: Iterable[Workspace]) -> dict[str, str]:
    """Return the merged tip of each of these tasks that was merged. A merged commit collides with no branch."""
    ids = tuple(space.task_id for space in spaces)
    found = {task.id: landed_tip(task) for task in store.tasks.find(Filter(ids=ids, metadata_key=MERGED), sort="id")}
    return {key: tip for key, tip in found.items() if tip}


def landed_tip(task: Task) -> str:
    """Return the tip of a task's branch when the branch was merged. Return "" if it was not merged."""
    told = task.metadata.get(MERGED)
    return str(told.get("tip") or "") if isinstance(told, dict) else ""


def keep(store: Store, common: str, found: CollisionCheck, now: datetime) -> None:
    """Store what a look found. For pairs that an incomplete look did not reach, keep the earlier result."""
    seen = [_collision(clash, common, now) for clash in found.clashes]
    pairs = {each.pair for each in seen}
    before = [] if found.is_complete else store.collisions.find(common=common)
    store.collisions.keep(common, [*seen, *(each for each in before if each.pair not in pairs)])


def _collision(clash: Clash, common: str, now: datetime) -> Collision:
    return Collision(
        common=common,
        task_id=clash.branch.key,
        other_id=clash.other.key,
        tip=clash.branch.tip,
        other_tip=clash.other.tip,
        files=clash.files,
        seen_at=now,
    )
