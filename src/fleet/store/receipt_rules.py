"""What holds for receipts and collisions, whatever keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.receipt import chained

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleet.core.collision import Collision
    from fleet.core.receipt import Receipt


def placed(receipt: Receipt, last: Receipt | None) -> Receipt:
    """A new receipt behind the last of its owner."""
    return chained(receipt, last.hash if last else "")


def carried_on(seen: Iterable[Collision], known: Iterable[Collision]) -> list[Collision]:
    """Collisions as they are seen now; of a pair that was known, when it was first seen and told stays."""
    before = {each.pair: each for each in known}
    return [
        each.replace(seen_at=before[each.pair].seen_at, told_at=each.told_at or before[each.pair].told_at)
        if each.pair in before
        else each
        for each in seen
    ]
