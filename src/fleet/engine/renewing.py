"""Renewal of the claims that this host's runs hold."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.core.task import Claim
    from fleet.engine.context import Context
    from fleet.engine.runner import Runner

log = logging.getLogger(__name__)

#: How long a renewal waits for shims to learn the new deadline. Slower shims learn it later.
SHIM_SECONDS = 1.0


class Renewals:
    """The renewal of all claims that a supervisor holds."""

    def __init__(self, context: Context, runners: Mapping[str, Runner]) -> None:
        self._context, self._runners = context, runners
        self._telling: set[asyncio.Task[None]] = set()

    async def renew(self) -> list[str]:
        """Extend all claims. Return the tasks whose claim is lost. Raises FleetError."""
        context, store = self._context, self._context.store
        held = {key: runner for key, runner in self._runners.items() if not runner.is_settled}
        ttl = timedelta(seconds=context.settings.supervisor.claim_seconds)
        asked = context.cluster.leases.now()
        claims: list[Claim] = []
        if held:
            claims = await store.call(store.claims.renew, [runner.claim for runner in held.values()], ttl=ttl)
        elif store.is_away:
            await store.call(store.config.all)  # without claims: learn whether the store is back
        kept = {claim.task.id: claim for claim in claims}
        for key, claim in kept.items():
            held[key].claim = claim
        context.cluster.leases.confirm(kept, asked, ttl.total_seconds())
        store.note_back()
        lost = [key for key, runner in held.items() if key not in kept and self._runners.get(key) is runner]
        context.cluster.leases.lose(lost)
        await self._tell([held[key] for key in kept])
        return lost

    async def _tell(self, runners: list[Runner]) -> None:
        """Tell the shims the new deadlines. A slow shim must not delay the next renewal."""
        if not runners:
            return
        tasks = {asyncio.create_task(runner.put_off()) for runner in runners}
        self._telling |= tasks
        for task in tasks:
            task.add_done_callback(self._telling.discard)
        await asyncio.wait(tasks, timeout=SHIM_SECONDS)
