"""The receipt of a run: its finding and pieces, kept in the history and, for people, in the run's folder."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from fleet.core.receipt import Receipt, drafted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from fleet.core.finding import Judgement
    from fleet.core.run import Run
    from fleet.engine.folder import TaskFolder
    from fleet.store.base import Store


def keep(store: Store, folder: TaskFolder, run: Run, judgement: Judgement, pieces: Mapping[str, Any]) -> Receipt:
    """Append a run's receipt to those of its owner, within the caller's transaction. May be repeated."""
    receipt = store.receipts.keep(
        Receipt(
            run_id=run.id,
            task_id=run.task_id,
            owner=run.owner,
            coder=run.coder,
            model=run.model,
            finding=judgement.finding,
            made_at=store.now(),
            body=drafted(judgement.finding, judgement.shown, pieces),
        )
    )
    with contextlib.suppress(OSError):  # the readable copy; a full disk costs that, not the run
        folder.write_receipt(run.number, file_of(receipt))
    return receipt


def file_of(receipt: Receipt) -> dict[str, Any]:
    """A receipt as people and other hosts read it."""
    named = ("run_id", "task_id", "owner", "coder", "model", "previous", "hash")
    return {
        **{name: getattr(receipt, name) for name in named},
        "made_at": receipt.made_at.isoformat(),
        **receipt.told,
    }
