"""Putting what was done here onto a remote: a branch, the receipts of its runs, a commit that others begin at.

Nothing there is ever overwritten, and sending the same again changes nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.core.record import Record
from fleet.workspaces.commits import Person, make_commit
from fleet.workspaces.mirror import BASES
from fleet.workspaces.remote import PUSH_SECONDS, RemoteAway, shown, talk, why

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.core.receipt import Receipt
    from fleet.workspaces.remote import Remote
    from fleet.workspaces.view import View

#: Where a branch goes that is taken by something else over there.
RUNS = "refs/fleet/runs"
RECEIPTS = "refs/fleet/receipts"
FILE = "receipt.json"
_PUSH = ("push", "--porcelain", "--no-verify", "--no-follow-tags", "--no-signed", "--recurse-submodules=no")
_LINE = re.compile(r"(?P<flag>.)\t[^\t]*:(?P<ref>refs/[^\t]+)\t(?P<words>.*)")
#: What cannot be part of a ref's name.
_ODD = re.compile(r"[^A-Za-z0-9._-]+|\.\.+|^\.|\.lock$|\.$")


class Sent(Record):
    """What became of the refs that were sent."""

    arrived: tuple[str, ...] = ()
    refused: dict[str, str] = {}  # noqa: RUF012 - why, by ref; never changed in place


def send(view: View, remote: Remote, refs: Mapping[str, str], *, seconds: float = PUSH_SECONDS) -> Sent:
    """Put each commit onto the ref that it is named for, unless that is taken. Raises RemoteAway."""
    pairs = [f"{commit}:{ref}" for ref, commit in refs.items()]
    told = talk(view, remote, *_PUSH, "--", remote.address, *pairs, seconds=seconds)
    found = [line for each in told.out.splitlines() if (line := _LINE.fullmatch(each))]
    arrived = tuple(line["ref"] for line in found if line["flag"] != "!")
    refused = {line["ref"]: line["words"][:300] for line in found if line["flag"] == "!"}
    if set(arrived) | set(refused) != set(refs):
        raise RemoteAway(f"nothing can be put onto {shown(remote.url)}: {why(told)}")
    return Sent(arrived=arrived, refused=refused)


def send_branch(view: View, remote: Remote, branch: str, tip: str, run_id: str) -> str:
    """Put the tip of a branch onto the remote's branch; where that has gone another way, onto a ref of the run's own.

    That ref. Raises RemoteAway, FleetError where the remote takes neither.
    """
    ref, own = f"refs/heads/{branch}", _ref(RUNS, run_id)
    sent = send(view, remote, {ref: tip})
    if not sent.refused:
        return ref
    other = send(view, remote, {own: tip})
    if own in other.arrived:
        return own
    raise FleetError(f"{shown(remote.url)} does not take {branch}: {sent.refused[ref]}")


def send_receipts(
    view: View, remote: Remote, receipts: Mapping[str, Receipt], besides: Mapping[str, str] | None = None
) -> Sent:
    """Put receipts onto the remote, each with what its file is to hold as the key, and commits onto refs besides.

    Raises RemoteAway, GitFault.
    """
    refs = {_ref(RECEIPTS, receipt.run_id): _commit(view, text, receipt) for text, receipt in receipts.items()}
    refs |= besides or {}
    return send(view, remote, refs) if refs else Sent()


def send_base(view: View, remote: Remote, commit: str, *, seconds: float) -> None:
    """Put a commit that others are to begin at where they find it. Raises RemoteAway, FleetError."""
    ref = f"{BASES}/{commit}"
    sent = send(view, remote, {ref: commit}, seconds=seconds)
    if sent.refused:
        raise FleetError(f"{shown(remote.url)} does not take {ref}: {sent.refused[ref]}")


def _commit(view: View, text: str, receipt: Receipt) -> str:
    """A commit that holds a receipt; of the same receipt the same commit, whoever makes it."""
    blob = view.git("hash-object", "-w", "--stdin", stdin=text.encode("utf-8", "replace")).decode().strip()
    tree = view.git("mktree", stdin=f"100644 blob {blob}\t{FILE}\n".encode()).decode().strip()
    person = Person(name="fleet", email="fleet@localhost", at=f"{int(receipt.made_at.timestamp())} +0000")
    message = f"receipt of {receipt.run_id}: {receipt.finding}\n"
    return make_commit(view, tree, (), message, author=person, committer=person)


def part_of_ref(text: str) -> str:
    """A text as one part of a ref's name."""
    return _ODD.sub("-", text) or "-"


def _ref(below: str, run_id: str) -> str:
    return "/".join((below, *map(part_of_ref, run_id.split("/"))))
