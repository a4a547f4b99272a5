"""A home that was moved: what is on record of it, and what git knows of its worktrees, follows before anything is
started, repaired or removed there. Live agents go on: a link at the old path leads them to the new one."""

from __future__ import annotations

import contextlib
import logging
import os
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError, HomeRefused, IllegalMove
from fleet.core.filter import Filter
from fleet.core.jsontext import decode, encode
from fleet.core.record import Record
from fleet.core.relocation import Relocation
from fleet.engine.hosting import owner_of, pin_here, pin_of, settings_here
from fleet.engine.single import holder
from fleet.home import Home, write_programs
from fleet.launchers.lock import is_locked
from fleet.workspaces.admin import admin_of, real
from fleet.workspaces.repository import Repository, locked
from fleet.workspaces.worktree import follow

if TYPE_CHECKING:
    from fleet.core.workspace import Workspace
    from fleet.store.base import Store

log = logging.getLogger(__name__)

#: The queue's setting that says where a home was when its supervisor ran last; the home's own pin follows.
PLACE = "fleet.place."


class Place(Record):
    """Where a home is, as the queue has it on record."""

    root: str  # as it was named
    real: str  # with every link resolved
    owner: str  # the id of its host
    links: tuple[str, ...] = ()  # what leads agents here from where the home was when they were started


def relocate(home: Home, store: Store) -> str:
    """Take in, for a command, that a home was moved since its supervisor ran last. Returns what was done.

    Raises HomeRefused for a copy whose original still exists, and IllegalMove while the supervisor of the old place
    runs.
    """
    pin = pin_of(home)
    found = store.config.all().get(PLACE + pin) if pin else None
    known = _place_in(found) if found else _place_before(home, store)
    if known is None or known.real == os.path.realpath(home.root):
        return ""
    if holder(home) is not None:
        hint = "`fleet run restart` has it go on from here."
        raise IllegalMove(f"the home was moved from {known.root} while its supervisor runs", hint=hint)
    return take_place(home, store, owner_of(home, settings_here(home)))


def take_place(home: Home, store: Store, owner: str) -> str:
    """Put on record where a home is, and have everything follow that is on record elsewhere. Returns what was done.

    Raises HomeRefused for a copy whose original still exists.
    """
    key = PLACE + pin_here(home)
    found = store.config.all().get(key)
    place = Place(root=home.root, real=os.path.realpath(home.root), owner=owner)
    known = _place_in(found) if found else _place_before(home, store)
    if known is None:
        store.config.set(key, encode(place.as_dict()))
        return ""
    if known.real == place.real:
        place = place.replace(root=known.root, links=known.links)
    else:
        _refuse_copy(home, known)
        place = place.replace(links=(*known.links, *_linked(home, store, known)))
    moved = Relocation(before=(known.root, known.real), after=place.root, owner_before=known.owner, owner=place.owner)
    followed = [_followed(home, space, moved) for space in store.workspaces.find() if space.lies_on(known.owner)]
    if not (store.runs.live(known.owner) or store.runs.live(owner)):
        place = place.replace(links=_without_links(place))
    if place == known:
        return ""
    with store.atomic():
        if (known.real, known.owner) != (place.real, place.owner):
            store.workspaces.relocate(moved)
            for task in store.tasks.find(Filter(unfinished=True), sort="id"):
                if moved.task(task) != task:
                    store.tasks.save(moved.task(task))
        store.config.set(key, encode(place.as_dict()))
    write_programs(home)
    if known.real == place.real:
        return ""
    said = f"the home was moved from {known.root}: {sum(followed)} worktrees follow"
    log.warning("%s", said)
    return said


def _place_in(text: str) -> Place:
    said = decode(text)
    return Place(**{**said, "links": tuple(said["links"])})


def _place_before(home: Home, store: Store) -> Place | None:
    """Return where a home was that an older fleet moved or copied in silence.

    Its worktrees or live runs are on record there. They are here and not there, or there is the same home.
    """
    settings = settings_here(home)

    def place(root: str) -> Place:
        return Place(root=root, real=os.path.realpath(root), owner=owner_of(Home(root), settings))

    for space in store.workspaces.find():
        root, found, rest = space.path.partition("/worktrees/")
        while found:
            moved = not os.path.lexists(space.path) and os.path.isdir(home.worktree(rest))  # noqa: PTH112
            if moved or _is_same(home, root):
                return place(root)
            more, found, rest = rest.partition("/worktrees/")
            root = f"{root}/worktrees/{more}"
    for run in store.runs.live():
        if run.home and run.owner == place(run.home).owner:
            moved = not os.path.lexists(run.home) and os.path.isdir(home.task(run.task_id))  # noqa: PTH112
            if moved or _is_same(home, run.home):
                return place(run.home)
    return None


def _is_same(home: Home, root: str) -> bool:
    """Return True if the home at another path is this one, or was when somebody copied it."""
    return os.path.realpath(root) != os.path.realpath(home.root) and pin_of(Home(root)) == pin_of(home) != ""


def _refuse_copy(home: Home, known: Place) -> None:
    """Raise HomeRefused where the home that is on record still exists: two would have the same tasks and agents."""
    if _is_same(home, known.real):
        hint = f"set FLEET_HOME to {known.root}, or move that away to go on from here."
        raise HomeRefused(f"the home {home.root} is a copy of {known.root}, which still exists", hint=hint)


def _followed(home: Home, space: Workspace, moved: Relocation) -> bool:
    """Have git know where a worktree is now. Whether it was moved with the home."""
    after, admin = moved.workspace(space), str(space.made.get("admin") or "")
    before = moved.before[-1] + after.path[len(moved.after) :]
    if not after.path.startswith(f"{moved.after}/") or not os.path.isdir(after.path):  # noqa: PTH112
        return False
    repository = Repository(top=after.repo, common=after.common)
    admin = admin or admin_of(repository, before) or ""
    if not admin or real(after.path) == before:
        return False
    try:
        with locked(home, repository):
            follow(after.path, moved.path(admin), before=before, admin_before=admin)
    except (FleetError, OSError) as error:
        log.warning("git does not know that %s was moved to %s: %s", space.path, after.path, error)
    return True


def _linked(home: Home, store: Store, known: Place) -> tuple[str, ...]:
    """Have the old path lead here where agents live that know no other. Returns the link that was made."""
    live = [home.run(run.task_id, run.number) for run in store.runs.live(known.owner)]
    if not any(is_locked(folder) for folder in live):
        return ()
    try:
        os.symlink(home.root, known.root)  # noqa: PTH211
    except OSError as error:
        log.warning("agents that were started in %s cannot reach %s: %s", known.root, home.root, error)
        return ()
    log.warning("%s leads to %s, for agents that were started there", known.root, home.root)
    return (known.root,)


def _without_links(place: Place) -> tuple[str, ...]:
    """Remove what led agents here that have ended."""
    for link in place.links:
        with contextlib.suppress(OSError):
            if os.path.islink(link):  # noqa: PTH114
                os.unlink(link)  # noqa: PTH108
    return ()
