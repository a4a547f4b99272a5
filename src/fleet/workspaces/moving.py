"""Moving a branch to a new commit, with the checkouts that have it; or leaving all as it is, and the commit at a ref.

A branch that is checked out where something is changed is not moved: the next `git status` there would tell of changes
that nobody made. What is under way is in a journal first, so that whatever is killed is mended (`mending`).
"""

# ruff: noqa: PTH108, PTH118
from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError, RepositoryBusy
from fleet.core.record import Record
from fleet.files import write_all
from fleet.workspaces.git import GitFault
from fleet.workspaces.mending import Entry, bring, drop, install, keep
from fleet.workspaces.repository import locked
from fleet.workspaces.seats import hidden_checkout, seats_of, unfit
from fleet.workspaces.stale import busy, clear_stale, lock_named

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from fleet.home import Home
    from fleet.workspaces.seats import Seat
    from fleet.workspaces.view import View

#: Where results wait for whose branch is checked out and changed there.
WAITING = "refs/fleet/merged/"
SAID = "fleet: merged"
#: Git's words for a ref that is not where it was said to be.
DIFFERS = ("but expected", "already exists", "unable to resolve reference")


class TargetMoved(FleetError):
    """Somebody moved the branch meanwhile."""

    hint = "try again."


class Moved(Record):
    """What became of a branch that was to be moved."""

    entry: Entry  # stays on record until it is dropped
    why_not: str = ""  # why the branch is where it was, and the commit waits

    @property
    def ref(self) -> str:
        """What names the commit now."""
        return self.entry.ref


def waiting_at(branch: str) -> str:
    """The ref of what waits for a branch."""
    return f"{WAITING}{branch}"


def move(home: Home, view: View, entry: Entry, *, in_use: Collection[str] = ()) -> Moved:
    """Take a branch from `entry.old` to `entry.new`, with its checkouts. `in_use` are the folders of live agents.

    Raises TargetMoved, and RepositoryBusy; then everything is as it was. Afterwards the entry is dropped by whoever has
    noted what landed.
    """
    view.make()
    with locked(home, view.repository):
        seats = seats_of(view.repository, entry.branch)
        entry = entry.replace(ref=f"refs/heads/{entry.branch}", seats=tuple((seat.path, seat.admin) for seat in seats))
        keep(home, entry)
        try:
            why_not = hidden_checkout(view.repository, entry.branch)
            why_not = why_not or next((_used(seat) for seat in seats if seat.path in in_use), "")
            why_not = why_not or _moved(view, entry, seats)
            if not why_not:
                return Moved(entry=entry)
            entry = entry.replace(ref=waiting_at(entry.branch), seats=())
            keep(home, entry)
            _update(view, [f"verify refs/heads/{entry.branch} {entry.old}", _waits(view, entry)])
        except (TargetMoved, RepositoryBusy):  # all is as it was; after anything else the journal is needed
            drop(home, entry)
            raise
        return Moved(entry=entry, why_not=why_not)


def _used(seat: Seat) -> str:
    return f"it is checked out in {seat.path}, where an agent works"


def _moved(view: View, entry: Entry, seats: list[Seat]) -> str:
    """Move all of it; why not, where something stands against it."""
    with contextlib.ExitStack() as stack:
        indexes = []
        for number, seat in enumerate(seats):
            if not stack.enter_context(_alone_in(seat, entry.token)):
                return f"it is checked out in {seat.path}, and git is at work there"
            index = os.path.join(view.path, f"moving-{entry.token}-{number}")
            for name in (index, f"{index}.new", f"{index}.lock"):
                stack.callback(_unlink, name)
            if why := unfit(view, seat, entry.branch, entry.old, entry.new, index):
                return f"it is checked out in {seat.path}, and {why}"
            indexes.append((seat, index))
        return _carried_out(view, entry, indexes)


def _carried_out(view: View, entry: Entry, indexes: list[tuple[Seat, str]]) -> str:
    orders = [f"update refs/heads/{entry.branch} {entry.new} {entry.old}", *_waits_no_more(view, entry)]
    done: list[Seat] = []
    for seat, index in indexes:
        done.append(seat)
        try:
            # Git itself looks once more at each file that it is about to change, and changes none where one is not
            # what the index says.
            view.git("read-tree", "-m", "-u", entry.old, entry.new, tree=seat.path, index=index)
        except GitFault as fault:
            _back(view, entry, done)
            return f"it is checked out in {seat.path}, and git says: {fault}"
    try:
        _update(view, orders)
    except FleetError:
        _back(view, entry, done)
        raise
    for seat, index in indexes:
        install(seat, index)
    return ""


def _back(view: View, entry: Entry, seats: list[Seat]) -> None:
    for seat in seats:
        bring(view, seat, entry.new, entry.old)


@contextlib.contextmanager
def _alone_in(seat: Seat, token: str) -> Iterator[bool]:
    """Keep every git out of a checkout's index, as git itself does; whether that could be had."""
    try:
        _take(seat, token)
    except OSError:  # somebody has it, or nothing can be written there
        yield False
        return
    finally:
        _unlink(seat.draft)
    try:
        yield True
    finally:
        _unlink(seat.lock)


def _take(seat: Seat, token: str) -> None:
    """Make the lock with our token in it, at once: one without would be nobody's to take away."""
    _unlink(seat.draft)
    handle = os.open(seat.draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        write_all(handle, token.encode())
    finally:
        os.close(handle)
    os.link(seat.draft, seat.lock)


def _waits(view: View, entry: Entry) -> str:
    ref = waiting_at(entry.branch)
    found = view.commit_of(ref)
    return f"update {ref} {entry.new} {found}" if found else f"create {ref} {entry.new}"


def _waits_no_more(view: View, entry: Entry) -> list[str]:
    ref = waiting_at(entry.branch)
    found = view.commit_of(ref)
    return [f"delete {ref} {found}"] if found else []


def _update(view: View, lines: list[str]) -> None:
    """Change refs, all or none. Raises TargetMoved, RepositoryBusy."""
    orders = "".join(f"{line}\n" for line in lines).encode()
    for _ in range(2):
        try:
            view.git("update-ref", "-m", SAID, "--stdin", stdin=orders)
        except GitFault as fault:
            lock = lock_named(fault)
            if lock is None and any(word in fault.said for word in DIFFERS):
                raise TargetMoved(f"the branch moved meanwhile: {fault}") from fault
            if lock is None:
                raise
            if not clear_stale(view.repository, lock):
                raise busy(lock) from fault
        else:
            return
    raise TargetMoved("the branch's lock is taken again and again")


def _unlink(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
