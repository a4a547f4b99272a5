"""Moving a branch to a new commit with its checkout. If that is refused, nothing changes and a ref holds the commit.

Git moves the checkout with `git merge --ff-only`. A checkout with local changes is not touched. Git writes files before
the branch, so a journal records the move in progress. `finish` lets git complete an interrupted move.
"""

# ruff: noqa: PTH108, PTH118, PTH208
from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError, RepositoryBusy
from fleet.core.record import Record
from fleet.files import atomic_write, make_private
from fleet.git.commits import is_ancestor
from fleet.git.merge.branch_checkout import checkouts_of, hidden_checkout
from fleet.git.process import GitFault
from fleet.git.repository import locked
from fleet.git.worktree_place import read_plain
from fleet.git.worktree_records import busy, clear_stale, lock_named

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from fleet.git.merge.branch_checkout import BranchCheckout
    from fleet.git.repository import Repository
    from fleet.git.view import View
    from fleet.home import Home

#: Prefix of refs where results wait while the branch is checked out with changes.
WAITING = "refs/fleet/merged/"
SAID = "fleet: merged"
#: Git's messages for a ref that is not at the expected commit.
DIFFERS = ("but expected", "already exists", "unable to resolve reference")
LONGEST = 4 * 1024 * 1024
#: How many files are named that git would not overwrite.
MOST_NAMED = 3


class TargetMoved(FleetError):
    """The branch moved in the meantime."""

    hint = "try again"


class MoveInterrupted(FleetError):
    """Git changed a checkout but did not move its branch."""

    hint = "run `fleet list --repair` to let git finish it"


class BranchMove(Record):
    """A move of a branch, as stored in the journal."""

    token: str
    common: str
    top: str
    branch: str
    old: str
    new: str
    ref: str = ""  # the ref to move: the branch, or the ref where the result waits
    landing: tuple[Mapping[str, Any], ...] = ()  # the changes that land, in the caller's form


class MoveResult(Record):
    """The result of a move."""

    entry: BranchMove  # stays in the journal until it is dropped
    why_not: str = ""  # why the branch did not move and the commit waits

    @property
    def ref(self) -> str:
        return self.entry.ref


def waiting_at(branch: str) -> str:
    return f"{WAITING}{branch}"


def keep(home: Home, entry: BranchMove) -> None:
    """Write an entry into the journal."""
    make_private(home.merges)
    atomic_write(home.merge(entry.token), json.dumps(entry.as_dict()).encode(), 0o600)


def drop(home: Home, entry: BranchMove) -> None:
    """Remove an entry from the journal, after the move is done and its changes are recorded."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(home.merge(entry.token))


def entries(home: Home, repository: Repository | None = None, branch: str = "") -> list[BranchMove]:
    """Return the journal's entries, of one repository and branch or of any. Their moves may be incomplete."""
    try:
        names = sorted(os.listdir(home.merges))
    except OSError:
        return []
    found = [_read_entry(home.merge(name.removesuffix(".json"))) for name in names if name.endswith(".json")]
    known = [entry for entry in found if entry is not None]
    common = repository.common if repository else None
    return [entry for entry in known if common in (None, entry.common) and branch in ("", entry.branch)]


def move(home: Home, view: View, entry: BranchMove, *, in_use: Collection[str] = ()) -> MoveResult:
    """Move a branch with its checkout from `entry.old` to `entry.new`. `in_use` are the folders of live agents.

    Raises TargetMoved or RepositoryBusy with nothing changed. Raises MoveInterrupted if git stopped halfway. The caller
    must drop the entry after it has recorded what landed.
    """
    view.make()
    entry = entry.replace(ref=f"refs/heads/{entry.branch}")
    with locked(home, view.repository) as lock:
        keep(home, entry)
        try:
            with checkouts_of(view, entry.branch) as checkouts:
                why_not = _explain_refusal(view, entry, checkouts, in_use)
                if checkouts and not why_not:
                    why_not = _fast_forward(view, entry, checkouts[0], lock)
            if why_not:
                return _park_commit(home, view, entry, why_not)
            if not checkouts:
                _update_refs(view, [f"update {entry.ref} {entry.new} {entry.old}"])
            return _landed(view, entry)
        except (TargetMoved, RepositoryBusy):  # nothing has changed; after other errors the journal is needed
            drop(home, entry)
            raise


def finish(home: Home, view: View, entry: BranchMove) -> MoveResult | None:
    """Let git complete an interrupted move. Hold the queue of that branch.

    Return None if nothing had been changed; then nothing changes. The entry stays until it is dropped. Raises GitFault,
    RepositoryBusy, MoveInterrupted.
    """
    view.make()
    # The git process of a killed merge holds the lock until it ends.
    with locked(home, view.repository) as lock, checkouts_of(view, entry.branch) as checkouts:
        tip = view.commit_of(entry.ref) if entry.ref else None
        if tip is not None and is_ancestor(view, entry.new, tip):
            return _landed(view, entry) if entry.ref != waiting_at(entry.branch) else MoveResult(entry=entry)
        if entry.ref != f"refs/heads/{entry.branch}" or tip != entry.old or len(checkouts) != 1:
            return None
        if checkouts[0].unfit() or not checkouts[0].touched(entry.old, entry.new):
            return None
        why_not = _finish_checkout(view, entry, checkouts[0], lock)
        return _park_commit(home, view, entry, why_not) if why_not else _landed(view, entry)


def _finish_checkout(view: View, entry: BranchMove, checkout: BranchCheckout, lock: int) -> str:
    """Let git complete a move in a checkout. Return why it cannot, or ""."""
    if os.path.lexists(checkout.lock) and not clear_stale(view.repository, checkout.lock):
        raise busy(checkout.lock)
    if checkout.is_written(entry.new):
        _update_refs(view, [f"update {entry.ref} {entry.new} {entry.old}"])
        return ""
    if not checkout.take_back(entry.old, entry.new):
        return f"it is checked out in {checkout.path}, and changed there since"
    return _fast_forward(view, entry, checkout, lock)


def _explain_refusal(view: View, entry: BranchMove, checkouts: list[BranchCheckout], in_use: Collection[str]) -> str:
    """Return why the checkouts of a branch must not be moved, or ""."""
    if why := hidden_checkout(view.repository, entry.branch):
        return why
    if len(checkouts) > 1:
        return f"it is checked out in {' and in '.join(each.path for each in checkouts)}"
    for each in checkouts:
        if each.path in in_use:
            return f"it is checked out in {each.path}, where an agent works"
        if view.commit_of(entry.ref) != entry.old:
            raise TargetMoved("the branch moved in the meantime")
        held = os.path.join(view.repository.common, f"{entry.ref}.lock")
        if os.path.lexists(held) and not clear_stale(view.repository, held):
            raise busy(held)
        if why := each.why_not(entry.old, entry.new):
            return f"it is checked out in {each.path}, and {why}"
    return ""


def _fast_forward(view: View, entry: BranchMove, checkout: BranchCheckout, lock: int) -> str:
    """Let git move a branch and its checkout. Return why git refuses, or "".

    Raises TargetMoved, MoveInterrupted.
    """
    try:
        checkout.git("merge", "--ff-only", "--no-overwrite-ignore", "--quiet", entry.new, inherit=(lock,))
    except GitFault as fault:
        tip = view.commit_of(entry.ref)
        if tip == entry.new:  # the move is complete, however git exited
            return ""
        if tip != entry.old:
            raise TargetMoved("the branch moved in the meantime") from fault
        if not checkout.touched(entry.old, entry.new):
            return f"it is checked out in {checkout.path}, and {_format_fault(fault)}"
        raise MoveInterrupted(f"git stopped while it moved {entry.branch} in {checkout.path}: {fault}") from fault
    return ""


def _format_fault(fault: GitFault) -> str:
    names = [line.strip() for line in fault.said.splitlines() if line.startswith("\t")]
    return f"{', '.join(names[:MOST_NAMED])} is in the way there" if names else f"git refuses: {fault}"


def _park_commit(home: Home, view: View, entry: BranchMove, why_not: str) -> MoveResult:
    """Leave the branch where it is and store the commit at a ref."""
    entry = entry.replace(ref=waiting_at(entry.branch))
    keep(home, entry)
    found = view.commit_of(entry.ref)
    order = f"update {entry.ref} {entry.new} {found}" if found else f"create {entry.ref} {entry.new}"
    _update_refs(view, [f"verify refs/heads/{entry.branch} {entry.old}", order])
    return MoveResult(entry=entry, why_not=why_not)


def _landed(view: View, entry: BranchMove) -> MoveResult:
    """Delete the ref that waited for the branch. Its commit is in the branch now or was superseded."""
    waiting = waiting_at(entry.branch)
    if found := view.commit_of(waiting):
        with contextlib.suppress(FleetError):  # the branch has moved, so this ref does not matter
            _update_refs(view, [f"delete {waiting} {found}"])
    return MoveResult(entry=entry)


def _update_refs(view: View, lines: list[str]) -> None:
    """Change refs, all or none. Raises TargetMoved, RepositoryBusy."""
    orders = "".join(f"{line}\n" for line in lines).encode()
    for _ in range(2):
        try:
            view.git("update-ref", "-m", SAID, "--stdin", stdin=orders)
        except GitFault as fault:
            lock = lock_named(fault)
            if lock is None and any(word in fault.said for word in DIFFERS):
                raise TargetMoved(f"the branch moved in the meantime: {fault}") from fault
            if lock is None:
                raise
            if not clear_stale(view.repository, lock):
                raise busy(lock) from fault
        else:
            return
    raise TargetMoved("the branch's lock is taken again and again")


def _read_entry(path: str) -> BranchMove | None:
    try:
        told = json.loads(read_plain(path, LONGEST))
        return BranchMove(**told | {"landing": tuple(told["landing"])})
    except (ValueError, TypeError, KeyError, AttributeError):
        return None  # incomplete, so nothing was done yet
