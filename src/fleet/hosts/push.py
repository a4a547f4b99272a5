"""Push the work of this host to its remotes: the branch before its task is settled, the receipts after.

The next run of the task, on any host, starts from the pushed branch. Work that cannot be pushed is pushed later. Two
recorded facts show what is missing. A worktree made from a mirror exists until its branch was pushed. Every other
worktree names in its notes the run whose work was pushed last.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from fleet.core.errors import ClaimLost, FleetError, IllegalMove, StoreAway
from fleet.core.filter import Filter
from fleet.core.jsontext import encode
from fleet.core.run import Run
from fleet.core.workspace import NOT_SENT, SENT, SENT_TO
from fleet.git.mirror import remote_for
from fleet.git.remote import RemoteAway, errand
from fleet.git.send import send_branch, send_receipts
from fleet.hosts.backoff import Backoff
from fleet.hosts.parcel import not_taken, packed, parcel
from fleet.hosts.removals import end_removal, note_on_worktree, remove_worktree
from fleet.proof.receipt import file_of
from fleet.supervisor.run import lost_claim
from fleet.supervisor.run.work import Work
from fleet.supervisor.task_folder import folder_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from fleet.core.receipt import Receipt
    from fleet.core.workspace import Workspace
    from fleet.home import Home
    from fleet.hosts.cluster import LiveRun
    from fleet.store.base import Store
    from fleet.supervisor.context import Context

log = logging.getLogger(__name__)

#: How often to look for something to push.
EVERY_SECONDS = 10.0
#: Maximum number of pushes at once. Some remotes are slow, and each push needs its own process.
AT_ONCE = 4
#: How often to check during a push that this host still holds the task.
LOOK_SECONDS = 0.2
#: Maximum number of times to offer artifacts to a remote that takes the branch and the receipt but not the artifacts.
MOST_OFFERS = 5


async def push_branch(context: Context, live: LiveRun) -> None:
    """Push the branch of an ended run before another host can take its task. Note in the worktree why a push failed.

    Raises ClaimLost if another host may have the task. In that case nothing is pushed as the end of a run.
    """
    store = context.store
    space = live.workspace
    if space is None or not space.remote or space.host != context.owner:
        return
    try:
        await store.call(_check_held, store.ports, live.run)
        with errand() as talks:
            sending = asyncio.ensure_future(asyncio.to_thread(_send_all, live, space))
            while not sending.done():
                await asyncio.wait({sending}, timeout=LOOK_SECONDS)
                if context.cluster.leases.is_closed(live.run.task_id):
                    talks.end()
            await sending
    except ClaimLost:
        raise
    except (FleetError, OSError) as error:
        log.warning("%s is not pushed yet: %s", live.run.id, error)
        await note_on_worktree(store, space, {NOT_SENT: str(error)[:300]})


class PushQueue:
    """What this host still has to push, and when to try again.

    Only the work to push is recorded. After a restart all of it is tried at once.
    """

    def __init__(self, context: Context, followed: Collection[str] = ()) -> None:
        self._context, self._followed = context, followed  # the tasks whose runs this host follows
        self._backoff = Backoff()
        self._due: dict[str, float] = {}  # when to try again, by run id, or by remote if the remote is unreachable

    async def push_due(self) -> float:
        """Push what is due. Return how many seconds to wait before the next look."""
        waiting = await self._context.store.call(self._waiting, frozenset(self._followed))
        known = {name for space, run in waiting for name in (run.id, space.remote)}
        self._due = {name: at for name, at in self._due.items() if name in known}
        left = self._of_now(waiting)
        while left:
            await asyncio.gather(*(self._return(*pair) for pair in left[:AT_ONCE]))
            left = self._of_now(left[AT_ONCE:])  # remotes that turned out to be unreachable are left out
        now = asyncio.get_running_loop().time()
        later = [at - now for space, run in waiting if (at := self._at(space, run))]
        return max(0.1, min(later, default=60.0))

    def _at(self, space: Workspace, run: Run) -> float:
        return max(self._due.get(run.id, 0.0), self._due.get(space.remote, 0.0))

    def _of_now(self, waiting: list[tuple[Workspace, Run]]) -> list[tuple[Workspace, Run]]:
        now = asyncio.get_running_loop().time()
        return [pair for pair in waiting if self._at(*pair) <= now]

    def _put_off(self, what: str) -> None:
        """Try `what` later, with a longer delay each time. Pushes that fail at once for the same remote count once."""
        now = asyncio.get_running_loop().time()
        if self._due.get(what, 0.0) <= now:
            self._due[what] = now + self._backoff.next_seconds(what)

    def _waiting(self, followed: frozenset[str]) -> list[tuple[Workspace, Run]]:
        """Return worktrees of this host whose work is not pushed, each with the last run in it."""
        context, store = self._context, self._context.store
        mine = [space for space in store.workspaces.find() if space.host == context.owner and space.remote]
        busy = self._busy({space.task_id for space in mine} - followed) | followed if mine else set()
        idle = [space for space in mine if space.task_id not in busy]
        last = store.runs.last([space.task_id for space in idle]) if idle else {}
        found = []
        for space in idle:
            run = last.get(space.task_id)
            if run is not None and (space.is_mirrored or space.made.get(SENT) != run.id):
                found.append((space, run))
            elif run is None and space.is_mirrored:  # the worktree was never ready, or its agent never started
                found.append((space, _no_run(space)))
        return found

    def _busy(self, keys: set[str]) -> set[str]:
        """Return those of these tasks whose last run has not ended.

        A dead run of this host that its task no longer names was lost, and is recorded as lost.
        """
        context, busy = self._context, set()
        store = context.store
        live = [run for run in store.runs.live() if run.task_id in keys]
        ids = tuple(run.task_id for run in live)
        named = {task.run_id for task in store.tasks.find(Filter(ids=ids), sort="id")} if ids else set()
        for run in live:
            if run.id in named or run.owner != context.owner or self._is_alive(run):
                busy.add(run.task_id)
            else:
                lost_claim.record_loss(context, run)
        return busy

    def _is_alive(self, run: Run) -> bool:
        place = folder_of(self._context.home, run, self._context.redactor).run_folder(run.number)
        return self._context.launchers.find(run.launcher).is_alive(place)

    async def _return(self, space: Workspace, run: Run) -> None:
        context, store = self._context, self._context.store
        receipts = await store.call(store.receipts.of_task, space.task_id)
        try:
            place = ""
            if run.number:
                place = await asyncio.to_thread(self._send_rest, space, run, receipts)
                await note_on_worktree(store, space, {SENT: run.id, SENT_TO: place, NOT_SENT: ""})
            if space.is_mirrored:
                is_used = space.ready_at is not None
                saved = await remove_worktree(context, space, with_ignored=False, is_used=is_used)
                await end_removal(store, space, saved)
        except IllegalMove:  # another process uses the worktree, if only to check that it exists
            self._put_off(run.id)
            return
        except StoreAway:
            raise
        except (FleetError, OSError) as error:
            told = str(error)[:300]
            if space.made.get(NOT_SENT) != told:
                log.warning("%s is not pushed yet: %s", run.id, error)
                await note_on_worktree(store, space, {NOT_SENT: told})
            self._put_off(space.remote if isinstance(error, RemoteAway) else run.id)
            return
        for what in (run.id, space.remote):
            self._due.pop(what, None)
            self._backoff.reset(what)
        if place:
            log.info("pushed %s to %s of %s", run.id, place, space.remote)

    def _send_rest(self, space: Workspace, run: Run, receipts: Iterable[Receipt]) -> str:
        """Send all work of a run. Return where its branch went. Raises FleetError."""
        context = self._context
        left = packed(folder_of(context.home, run, context.redactor)) if run.owner == context.owner else {}
        is_last = self._backoff.times(run.id) >= MOST_OFFERS
        return _send(context.home, space, run, receipts, left, insist=not is_last)


def _no_run(space: Workspace) -> Run:
    """Return a substitute for the run of a worktree that never had a run."""
    return Run(id=f"{space.task_id}/0", task_id=space.task_id, number=0, epoch=0, owner="", started_at=space.made_at)


def _check_held(store: Store, run: Run) -> None:
    """Raise ClaimLost unless this host holds the run's task under the run's claim."""
    task = store.tasks.get(run.task_id)
    if (task.claim_owner, task.epoch) != (run.owner, run.epoch):
        raise ClaimLost(run.task_id, run.epoch)


def _send_all(live: LiveRun, space: Workspace) -> None:
    """Send what the next run needs on any host: the branch, and what the agent left for it. Raises FleetError."""
    _send(live.folder.home, space, live.run, (), packed(live.folder))


def _send(
    home: Home,
    space: Workspace,
    run: Run,
    receipts: Iterable[Receipt],
    left: Mapping[str, bytes],
    *,
    insist: bool = True,
) -> str:
    """Send the branch, the receipts and what was left for the next run. Return where the branch went.

    Raises FleetError. Without `insist` a remote may refuse what was left for the next run, which can do without it.
    """
    work = Work(home, space)
    remote = remote_for(work.repository, space.remote)
    tip = work.tip
    place = send_branch(work.view, remote, space.branch, tip, run.id) if tip else ""
    own = {encode(file_of(each), 2) + "\n": each for each in receipts if each.owner == space.host}
    besides = parcel(work.view, run.task_id, run.number, left)
    for ref, why in not_taken(send_receipts(work.view, remote, own, besides).refused).items():
        if insist or ref not in besides:
            raise FleetError(f"{space.remote} rejects {ref}: {why}")
        log.warning("cannot send the uncommitted work of %s: %s", run.id, why)
    return place
