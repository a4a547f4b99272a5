"""Hosts, and the last events of runs, beside the queue in memory: a part of its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.glance import Glance
from fleet.store.memory_flows import MemoryFlows

if TYPE_CHECKING:
    from datetime import datetime

    from fleet.core.host import Host


class MemoryHosts(MemoryFlows):
    """Each dictionary is replaced, never changed."""

    def glance(self, host_id: str, key: str) -> Glance:
        state = self._queue.state
        return Glance(
            coders=self._queue.waiting_coders(),
            accounts=[account for _, account in sorted(state.accounts.items())],
            setting=state.config.get(key),
            host=state.hosts.get(host_id),
        )

    def keep_host(self, host: Host) -> Host:
        with self._queue.atomic():
            state = self._queue.state
            known = state.hosts.get(host.id)
            kept = host.replace(drained_at=known.drained_at if known else None)
            state.hosts = {**state.hosts, host.id: kept}
            return kept

    def hosts(self) -> list[Host]:
        return sorted(self._queue.state.hosts.values(), key=lambda host: (host.name, host.id))

    def drain_host(self, host_id: str, at: datetime | None) -> bool:
        with self._queue.atomic():
            state = self._queue.state
            if host_id not in state.hosts:
                return False
            state.hosts = {**state.hosts, host_id: state.hosts[host_id].replace(drained_at=at)}
            return True

    def forget_host(self, host_id: str) -> bool:
        with self._queue.atomic():
            state = self._queue.state
            found = host_id in state.hosts
            state.hosts = {key: host for key, host in state.hosts.items() if key != host_id}
            return found

    def keep_tail(self, run_id: str, text: str, at: datetime) -> None:
        with self._queue.atomic():
            self._queue.state.tails = {**self._queue.state.tails, run_id: (text, at)}

    def tail(self, run_id: str) -> tuple[str, datetime] | None:
        return self._queue.state.tails.get(run_id)

    def forget_tails(self, before: datetime) -> int:
        with self._queue.atomic():
            state = self._queue.state
            kept = {run_id: found for run_id, found in state.tails.items() if found[1] >= before}
            gone, state.tails = len(state.tails) - len(kept), kept
            return gone
