"""Receipts: fleet's own observations of a run in pieces, each with its hash, chained to the previous receipt."""

from __future__ import annotations

from fleet.core.ids import sha256
from fleet.core.jsontext import decode, encode
from fleet.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Any

#: The pieces, in the order in which they are collected.
PIECES = ("spawn", "stream", "transcript", "process", "git", "claims", "verify", "base", "scope")
FORM = 1
#: Follows the task in the id of a receipt that belongs to no run, because a person had the work verified again.
RECHECK = "/verify-"


class Receipt(Record):
    """A receipt as the history stores it. The receipts of one owner form a chain by their hashes."""

    run_id: str
    task_id: str
    owner: str
    coder: str = ""
    model: str = ""
    finding: str
    made_at: datetime
    previous: str = ""  # the hash of the previous receipt; "" for the first
    hash: str = ""
    body: str = "{}"  # JSON: form, finding, shown, pieces, hashes of the pieces

    @property
    def told(self) -> dict[str, Any]:
        found: dict[str, Any] = decode(self.body)
        return found


class FindingCount(Record):
    """Counts and sums of the ended runs of one coder and model with one finding."""

    coder: str
    model: str = ""
    finding: str = ""
    runs: int = 0
    first_runs: int = 0  # those that were their task's first run
    cost_usd: float = 0.0
    costed: int = 0  # how many have a known cost
    computed: int = 0  # how many have a cost that fleet computed
    seconds: float = 0.0  # sum of their durations
    tokens: int = 0


def draft_receipt(finding: str, shown: tuple[str, ...], pieces: Mapping[str, Any]) -> str:
    """Return the body of a receipt: its pieces and the hash of each."""
    hashes = {name: hash_of(encode(piece)) for name, piece in pieces.items()}
    told = {"form": FORM, "finding": finding, "shown": list(shown), "pieces": dict(pieces), "hashes": hashes}
    return encode(told)


def chain_receipt(receipt: Receipt, previous: str) -> Receipt:
    """Return a receipt linked to the previous one of its chain."""
    placed = receipt.replace(previous=previous)
    return placed.replace(hash=_hash(placed))


def flaws(receipt: Receipt) -> list[str]:
    """Return the inconsistencies of a receipt, in words. Empty if it is unchanged."""
    found = []
    if _hash(receipt) != receipt.hash:
        found.append("its hash does not match its text")
    told = receipt.told
    for name, piece in told.get("pieces", {}).items():
        if hash_of(encode(piece)) != told.get("hashes", {}).get(name):
            found.append(f"the hash of its piece {name!r} does not match its text")
    return found


def hash_of(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass"))


def _hash(receipt: Receipt) -> str:
    named = (receipt.run_id, receipt.task_id, receipt.owner, receipt.coder, receipt.model, receipt.finding)
    return hash_of("\n".join((*named, receipt.made_at.isoformat(), receipt.previous, receipt.body)))
