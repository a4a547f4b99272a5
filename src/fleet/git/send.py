"""Pushing results to a remote: a branch, the receipts of its runs, and base commits for other hosts.

Nothing on the remote is overwritten, and pushing the same again changes nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.core.record import Record
from fleet.git.commits import Person, make_commit
from fleet.git.mirror import BASES
from fleet.git.remote import PUSH_SECONDS, RemoteAway, shown, talk, why

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.core.receipt import Receipt
    from fleet.git.remote import Remote
    from fleet.git.view import View

#: Prefix of refs for branches whose name is taken by other commits on the remote.
RUNS = "refs/fleet/runs"
RECEIPTS = "refs/fleet/receipts"
FILE = "receipt.json"
_PUSH = ("push", "--porcelain", "--no-verify", "--no-follow-tags", "--no-signed", "--recurse-submodules=no")
_LINE = re.compile(r"(?P<flag>.)\t[^\t]*:(?P<ref>refs/[^\t]+)\t(?P<words>.*)")
#: Characters and forms that a ref name must not contain.
_ODD = re.compile(r"[^A-Za-z0-9._-]+|\.\.+|^\.|\.lock$|\.$")


class Sent(Record):
    """The result for each pushed ref."""

    arrived: tuple[str, ...] = ()
    refused: dict[str, str] = {}  # noqa: RUF012 - reasons by ref; never changed in place


def send(view: View, remote: Remote, refs: Mapping[str, str], *, seconds: float = PUSH_SECONDS) -> Sent:
    """Push each commit to its ref, unless the ref is taken. Raises RemoteAway."""
    pairs = [f"{commit}:{ref}" for ref, commit in refs.items()]
    told = talk(view, remote, *_PUSH, "--", remote.address, *pairs, seconds=seconds)
    found = [line for each in told.out.splitlines() if (line := _LINE.fullmatch(each))]
    arrived = tuple(line["ref"] for line in found if line["flag"] != "!")
    refused = {line["ref"]: line["words"][:300] for line in found if line["flag"] == "!"}
    if set(arrived) | set(refused) != set(refs):
        raise RemoteAway(f"nothing can be put onto {shown(remote.url)}: {why(told)}")
    return Sent(arrived=arrived, refused=refused)


def send_branch(view: View, remote: Remote, branch: str, tip: str, run_id: str) -> str:
    """Push a tip to the remote's branch, or to a ref of the run if that branch has diverged. Return the ref.

    Raises RemoteAway. Raises FleetError if the remote accepts neither.
    """
    ref, own = f"refs/heads/{branch}", _make_ref(RUNS, run_id)
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
    """Push receipts to the remote, and commits to the refs in `besides`. The keys of `receipts` are the file contents.

    Raises RemoteAway, GitFault.
    """
    refs = {
        _make_ref(RECEIPTS, receipt.run_id): _commit_receipt(view, text, receipt) for text, receipt in receipts.items()
    }
    refs |= besides or {}
    return send(view, remote, refs) if refs else Sent()


def send_base(view: View, remote: Remote, commit: str, *, seconds: float) -> None:
    """Push a base commit to a ref where other hosts find it. Raises RemoteAway, FleetError."""
    ref = f"{BASES}/{commit}"
    sent = send(view, remote, {ref: commit}, seconds=seconds)
    if sent.refused:
        raise FleetError(f"{shown(remote.url)} does not take {ref}: {sent.refused[ref]}")


def _commit_receipt(view: View, text: str, receipt: Receipt) -> str:
    """Return a commit that holds a receipt. The same receipt always gives the same commit."""
    blob = view.git("hash-object", "-w", "--stdin", stdin=text.encode("utf-8", "replace")).decode().strip()
    tree = view.git("mktree", stdin=f"100644 blob {blob}\t{FILE}\n".encode()).decode().strip()
    person = Person(name="fleet", email="fleet@localhost", at=f"{int(receipt.made_at.timestamp())} +0000")
    message = f"receipt of {receipt.run_id}: {receipt.finding}\n"
    return make_commit(view, tree, (), message, author=person, committer=person)


def part_of_ref(text: str) -> str:
    """Return a text in a form that is valid as one part of a ref name."""
    return _ODD.sub("-", text) or "-"


def _make_ref(below: str, run_id: str) -> str:
    return "/".join((below, *map(part_of_ref, run_id.split("/"))))
