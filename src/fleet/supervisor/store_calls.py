"""Calls of the store from the event loop. One thread makes the calls, and runs wait while the store is unreachable."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from fleet.core.errors import ClaimLost, DatabaseReplaced, FleetError, StoreAway, StoreFault

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import ParamSpec, TypeVar

    from fleet.core.task import Claim
    from fleet.hosts.cluster import Leases
    from fleet.store.base import Store

    P = ParamSpec("P")
    T = TypeVar("T")


log = logging.getLogger(__name__)

#: How long a waiting run pauses before it tries an unreachable store again, unless another call reaches the store.
RETRY_SECONDS = 10.0
#: How long a write that the store refused waits before it is repeated.
WRITE_SECONDS = 1.0
#: How often a waiting run checks whether its claim is certain again.
CLAIM_SECONDS = 0.1
#: The claim whose run an asyncio task follows, and the leases that confirm the claim. None if it follows no run.
_FOLLOWED: contextvars.ContextVar[tuple[Claim, Leases] | None] = contextvars.ContextVar("followed", default=None)


class StoreCalls:
    """The store as the event loop uses it: `await store.call(store.runs.get, run_id)`.

    The store's thread makes all calls, so that a slow database never stops the loop. Functions that run on that thread
    take the `Store` itself, which is `ports`.
    """

    def __init__(self, store: Store) -> None:
        self.ports = store
        self.tasks, self.claims, self.tokens, self.config = store.tasks, store.claims, store.tokens, store.config
        self.runs, self.questions, self.messages = store.runs, store.questions, store.messages
        self.receipts, self.collisions, self.accounts = store.receipts, store.collisions, store.accounts
        self.workflows, self.results, self.workspaces = store.workflows, store.results, store.workspaces
        self.hosts, self.tails = store.hosts, store.tails
        self.atomic, self.snapshot, self.now = store.atomic, store.snapshot, store.now
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")
        self._reachable = asyncio.Event()
        self._reachable.set()
        #: Why this supervisor must stop using the store: the home or its database was replaced.
        self.why_ended: FleetError | None = None
        self.ended = asyncio.Event()

    async def call(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a method of the store, or a function that uses the store, on the store's thread.

        After `wait_for_store`, wait while the store is unreachable, and raise ClaimLost if the claim is lost meanwhile.
        Otherwise raise StoreAway at once. Raises DatabaseReplaced and any exception of the method.
        """
        followed = _FOLLOWED.get()
        while followed is not None:
            await _until_held(*followed)
            with contextlib.suppress(StoreAway):
                try:
                    return await self.call_once(method, *args, **kwargs)
                except DatabaseReplaced:
                    raise asyncio.CancelledError from None  # the run continues: the next supervisor follows it
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._reachable.wait(), RETRY_SECONDS)
        return await self.call_once(method, *args, **kwargs)

    async def call_once(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a method on the store's thread without waiting for an unreachable store. Raises StoreAway."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: method(*args, **kwargs))
        except StoreAway as error:
            if not self.is_away:
                log.warning("database unreachable, waiting: %s", error)
                self._reachable.clear()
            raise
        except DatabaseReplaced as error:
            self.end(error)
            raise

    def wait_for_store(self, claim: Claim, leases: Leases) -> None:
        """Let later calls of this asyncio task and its child tasks wait for an unreachable store.

        An outage must not decide the end of a claimed run. The calls also wait while another host may have taken the
        task, so that nothing is written about the task.
        """
        _FOLLOWED.set((claim, leases))

    @property
    def is_away(self) -> bool:
        """Return True if the last call could not reach the store."""
        return not self._reachable.is_set()

    def note_back(self) -> None:
        """Note that the store answered, and resume waiting calls."""
        if self.is_away:
            log.info("database reachable again")
            self._reachable.set()

    def end(self, error: FleetError) -> None:
        """Note that the home or its database was replaced, and why. Sets `ended`."""
        if self.why_ended is None:
            self.why_ended = error
            self.ended.set()

    def close(self) -> None:
        """End the thread after its pending calls."""
        self._thread.shutdown(wait=True)


async def retry_until_stored(call: Callable[[Callable[[], T]], Awaitable[T]], what: str, write: Callable[[], T]) -> T:
    """Repeat a write with `call` until the store accepts it, so that a full disk loses no result. Return its result."""
    while True:
        try:
            return await call(write)
        except StoreFault as error:
            log.warning("%s is not recorded yet: %s", what, error)
            await asyncio.sleep(WRITE_SECONDS)


async def _until_held(claim: Claim, leases: Leases) -> None:
    """Wait until the database has confirmed that this host holds a claim. Raises ClaimLost."""
    while leases.is_closed(claim.task.id):
        if leases.is_lost(claim.task.id):
            raise ClaimLost(claim.task.id, claim.epoch)
        await asyncio.sleep(CLAIM_SECONDS)
