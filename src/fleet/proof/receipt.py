"""The receipt of a run: its finding and parts, kept in the store and, for users, in the run's folder."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from fleet.core.receipt import Receipt, draft_receipt

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from fleet.core.finding import Judgement
    from fleet.core.run import Run
    from fleet.store.base import Store
    from fleet.supervisor.task_folder import TaskFolder


def keep(store: Store, folder: TaskFolder, run: Run, judgement: Judgement, pieces: Mapping[str, Any]) -> Receipt:
    """Append a run's receipt to those of its owner. Call this within a transaction. Repeating it does no harm."""
    receipt = store.receipts.keep(
        Receipt(
            run_id=run.id,
            task_id=run.task_id,
            owner=run.owner,
            coder=run.coder,
            model=run.model,
            finding=judgement.finding,
            made_at=store.now(),
            body=draft_receipt(judgement.finding, judgement.shown, pieces),
        )
    )
    with contextlib.suppress(OSError):  # a full disk costs the readable copy, not the run
        folder.write_receipt(run.number, file_of(receipt))
    return receipt


def file_of(receipt: Receipt) -> dict[str, Any]:
    """Return a receipt in the form for users and other hosts."""
    named = ("run_id", "task_id", "owner", "coder", "model", "previous", "hash")
    return {
        **{name: getattr(receipt, name) for name in named},
        "made_at": receipt.made_at.isoformat(),
        **receipt.told,
    }
