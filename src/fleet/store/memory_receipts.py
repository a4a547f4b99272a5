"""Receipts and collisions beside the queue in memory: a part of its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.receipt import FindingCount
from fleet.core.run import COMPUTED, UNKNOWN
from fleet.store import receipt_rules as rules
from fleet.store.memory_workspaces import MemoryWorkspaces

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from fleet.core.collision import Collision
    from fleet.core.receipt import Receipt
    from fleet.core.run import Run


class MemoryReceipts(MemoryWorkspaces):
    """Receipts in the order they were made; each list is replaced, never changed."""

    def keep_receipt(self, receipt: Receipt) -> Receipt:
        with self._queue.atomic():
            if kept := self.receipt(receipt.run_id):
                return kept
            chain = self.receipt_chain(receipt.owner)
            placed = rules.placed(receipt, chain[-1] if chain else None)
            self._queue.state.receipts = [*self._queue.state.receipts, placed]
            return placed

    def receipt(self, run_id: str) -> Receipt | None:
        return next((each for each in self._queue.state.receipts if each.run_id == run_id), None)

    def receipts(self, task_id: str) -> list[Receipt]:
        return [each for each in self._queue.state.receipts if each.task_id == task_id]

    def receipt_chain(self, owner: str) -> list[Receipt]:
        return [each for each in self._queue.state.receipts if each.owner == owner]

    def finding_counts(self, *, since: datetime | None = None) -> list[FindingCount]:
        found: dict[tuple[str, str, str], list[Run]] = {}
        for run in self._queue.state.runs.values():
            if run.ended_at is not None and run.coder and (since is None or run.ended_at >= since):
                found.setdefault((run.coder, run.model, run.finding), []).append(run)
        return [_count(runs) for _, runs in sorted(found.items())]

    def collisions(self, *, common: str | None = None) -> list[Collision]:
        found = [each for each in self._queue.state.collisions if common in (None, each.common)]
        return sorted(found, key=lambda each: (each.common, each.seen_at, each.pair))

    def keep_collisions(self, common: str, seen: Sequence[Collision]) -> None:
        with self._queue.atomic():
            kept = rules.carried_on(seen, self.collisions(common=common))
            others = [each for each in self._queue.state.collisions if each.common != common]
            self._queue.state.collisions = [*others, *kept]

    def tell_collision(self, collision: Collision, at: datetime) -> bool:
        with self._queue.atomic():
            known = self._queue.state.collisions
            told = [each.replace(told_at=at) if _is_untold(each, collision) else each for each in known]
            self._queue.state.collisions = told
            return told != known


def _is_untold(each: Collision, wanted: Collision) -> bool:
    return (each.common, each.pair) == (wanted.common, wanted.pair) and each.told_at is None


def _count(runs: list[Run]) -> FindingCount:
    first = runs[0]
    costs = [run.cost_usd for run in runs if run.cost_usd is not None]
    spans = [(run.ended_at - run.started_at).total_seconds() for run in runs if run.ended_at is not None]
    return FindingCount(
        coder=first.coder,
        model=first.model,
        finding=first.finding,
        runs=len(runs),
        first_runs=sum(run.number == 1 for run in runs),
        cost_usd=float(sum(costs)),
        costed=sum(run.cost_usd is not None and run.cost_basis != UNKNOWN for run in runs),
        computed=sum(run.cost_basis.startswith(COMPUTED) for run in runs),
        seconds=float(sum(spans)),
    )
