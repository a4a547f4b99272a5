"""A home that was moved: update its records and git's paths of its worktrees before any work in the home.

Live agents continue: a link at the old path leads to the new one.
"""

from __future__ import annotations

import contextlib
import logging
import os
from typing import TYPE_CHECKING

from fleet.agents.lock import is_locked
from fleet.core.errors import FleetError, HomeRefused, IllegalMove
from fleet.core.filter import Filter
from fleet.core.jsontext import decode, encode
from fleet.core.record import Record
from fleet.core.relocation import Relocation
from fleet.git.repository import Repository, locked
from fleet.git.worktree import follow
from fleet.git.worktree_records import admin_of, real
from fleet.home import Home, write_programs
from fleet.supervisor.host import owner_of, pin_here, pin_of, settings_here
from fleet.supervisor.lock import holder

if TYPE_CHECKING:
    from fleet.core.workspace import Workspace
    from fleet.store.base import Store

log = logging.getLogger(__name__)

#: Prefix of the queue's setting that holds the home's path when its supervisor last ran. The home's pin follows.
PLACE = "fleet.place."


class HomePlace(Record):
    """The place of a home as recorded in the queue."""

    root: str  # as given by the user
    real: str  # with every link resolved
    owner: str  # the id of its host
    links: tuple[str, ...] = ()  # links at old paths, for agents started there


def relocate(home: Home, store: Store) -> str:
    """Detect for a command that a home was moved since its supervisor last ran, and relocate it. Return a report.

    Raises HomeRefused for a copy whose original still exists, and IllegalMove while the supervisor of the old place
    runs.
    """
    pin = pin_of(home)
    found = store.config.all().get(PLACE + pin) if pin else None
    if found is None or _place_in(found).real == os.path.realpath(home.root):
        return ""
    if holder(home) is not None:
        hint = "run `fleet run restart` to continue from here"
        raise IllegalMove(f"the home was moved from {_place_in(found).root} while its supervisor runs", hint=hint)
    return take_place(home, store, owner_of(home, settings_here(home)))


def take_place(home: Home, store: Store, owner: str) -> str:
    """Record the place of a home, and update everything recorded at the old place.

    Return a report, or "" if nothing moved.

    Raises HomeRefused for a copy whose original still exists.
    """
    key = PLACE + pin_here(home)
    found = store.config.all().get(key)
    place = HomePlace(root=home.root, real=os.path.realpath(home.root), owner=owner)
    if found is None:
        store.config.set(key, encode(place.as_dict()))
        return ""
    known = _place_in(found)
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


def _place_in(text: str) -> HomePlace:
    said = decode(text)
    return HomePlace(**{**said, "links": tuple(said["links"])})


def _is_same(home: Home, root: str) -> bool:
    """Return True if the home at `root` has another path and the same identity as this home."""
    return os.path.realpath(root) != os.path.realpath(home.root) and pin_of(Home(root)) == pin_of(home) != ""


def _refuse_copy(home: Home, known: HomePlace) -> None:
    """Raise HomeRefused if the recorded home still exists: two homes would have the same tasks and agents."""
    if _is_same(home, known.real):
        hint = f"set FLEET_HOME to {known.root}, or move that folder away to continue from here"
        raise HomeRefused(f"the home {home.root} is a copy of {known.root}, which still exists", hint=hint)


def _followed(home: Home, space: Workspace, moved: Relocation) -> bool:
    """Update git's record of where a worktree is. Return True if the worktree moved with the home."""
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


def _linked(home: Home, store: Store, known: HomePlace) -> tuple[str, ...]:
    """Create a link from the old path to this home if live agents know only the old path. Return the links created."""
    live = [home.run(run.task_id, run.number) for run in store.runs.live(known.owner)]
    if not any(is_locked(folder) for folder in live):
        return ()
    try:
        os.symlink(home.root, known.root)  # noqa: PTH211
    except OSError as error:
        log.warning("agents started in %s cannot reach %s: %s", known.root, home.root, error)
        return ()
    log.warning("linked %s to %s for agents started there", known.root, home.root)
    return (known.root,)


def _without_links(place: HomePlace) -> tuple[str, ...]:
    """Remove the links that led ended agents here. Return the links that remain: none."""
    for link in place.links:
        with contextlib.suppress(OSError):
            if os.path.islink(link):  # noqa: PTH114
                os.unlink(link)  # noqa: PTH108
    return ()
