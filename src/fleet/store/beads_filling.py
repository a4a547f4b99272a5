"""Filling bd with exactly the tasks of the home's file, for a queue that moves into bd."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.errors import IllegalMove, StoreFault
from fleet.store.beads_difference import difference, known_in
from fleet.store.beads_issue import line_of
from fleet.store.beads_program import Refused, objects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fleet.store.base import Store
    from fleet.store.beads_difference import Difference, Known
    from fleet.store.beads_program import Bd

PART = 500
#: Maximum number of tasks in one call.
MOST_IDS = 100
#: Settings of the queue that bd also uses. bd gets its prefix when its folder is created and never again.
PREFIX = "issue_prefix"
SETTINGS = ("status.custom", "types.custom")
#: The bd setting that names the queue whose tasks bd holds.
NAME = "custom.fleet_queue"


def fill(bd: Bd, store: Store, name: str, *, keep: Callable[[str], None], tell: Callable[[str, int], None]) -> None:
    """Make bd hold exactly the file's tasks, with their edges and comments.

    Tasks that only bd has are deleted there. If bd has extra or different tasks, `keep` first gets bd's whole export.
    Hold the queue's lock during the call. Raises IllegalMove if bd holds tasks of another queue. Raises StoreFault if
    not all tasks arrived, and Refused or StoreAway if bd fails.
    """
    _settle(bd, store.config.all())
    known, export = known_in(store), bd.run("export", "--all")
    found = difference(export, known)
    if found.foreign and _setting(bd, NAME) != name:
        raise IllegalMove(
            f"there are tasks in beads already, which are not these: {', '.join(found.foreign[:3])}",
            hint="move the home's .beads folder away, or export them (`bd export`) and delete them there.",
        )
    if found.foreign or found.other:
        keep(export)
    _set(bd, NAME, name)
    # An import adds labels, comments and edges but removes none, so a differing task is deleted and imported again.
    # Deleting a task changes what other tasks say about it in bd, so the last round imports those again.
    for anew in (False, True, False):
        if not found:
            return
        _send(bd, known, found, anew=anew, tell=tell)
        found = difference(bd.run("export", "--all"), known)
    if found:
        raise unlike(found)


def compare(bd: Bd, store: Store) -> None:
    """Raise StoreFault unless bd holds exactly the tasks of the file. Raises StoreAway if bd does not answer."""
    if found := difference(bd.run("export", "--all"), known_in(store)):
        raise unlike(found)


def sign(bd: Bd, name: str) -> None:
    """Record in bd which queue its tasks belong to, so that they can move back to that queue."""
    if _setting(bd, NAME) != name:
        _set(bd, NAME, name)


def unlike(found: Difference) -> StoreFault:
    """Return the error for a bd whose tasks differ from the file's."""
    hint = "nothing was switched; call it again, and report it if it stays so."
    return StoreFault(f"tasks did not arrive whole: {found}", hint=hint)


def _settle(bd: Bd, settings: dict[str, str]) -> None:
    theirs, ours = _setting(bd, PREFIX), settings.get(PREFIX, "")
    if ours and theirs and ours != theirs:
        raise IllegalMove(
            f"ids begin with {ours} in this queue and with {theirs} in bd",
            hint=f"`bd rename-prefix {ours}-` in the home, or move its .beads folder away: another is made then.",
        )
    for key in SETTINGS:
        if value := settings.get(key):
            bd.run("config", "set", key, value)


def _send(bd: Bd, known: dict[str, Known], found: Difference, *, anew: bool, tell: Callable[[str, int], None]) -> None:
    gone = [*found.foreign, *(found.other if anew else ())]
    for start in range(0, len(gone), MOST_IDS):
        bd.run("delete", "--force", *gone[start : start + MOST_IDS])
    said = {} if anew else found.other
    wanted = {*found.missing, *found.other}
    tasks = [key for key in _in_order(known) if key in wanted]
    for start in range(0, len(tasks), PART):
        part = [known[key] for key in tasks[start : start + PART]]
        _import(bd, [each._replace(comments=said.get(each.task.id, each.comments)) for each in part])
        tell("tasks", len(part))


def _import(bd: Bd, part: Iterable[Known]) -> None:
    text = "".join(line_of(each.task, each.edges, each.comments) for each in part)
    answer = objects(bd.run("import", "-", "--allow-stale", "--json", text=text))
    skipped = answer[0].get("skipped_dependencies") if answer else None
    if skipped:
        raise Refused(f"dependencies that bd does not take: {skipped[:3]}")


def _setting(bd: Bd, key: str) -> str:
    found = objects(bd.run("config", "list", "--json"))
    return str(found[0].get(key) or "") if found else ""


def _set(bd: Bd, key: str, value: str) -> None:
    bd.run("config", "set", key, value)


def _in_order(known: dict[str, Known]) -> list[str]:
    """Return the ids of the tasks, each after the tasks that it needs. A cycle is broken at its first task."""
    begun, ordered = set[str](), dict[str, None]()
    for first in known:
        todo = [first]
        while todo:
            key = todo[-1]
            begun.add(key)
            left = next((e.needs for e in known[key].edges if e.needs in known and e.needs not in begun), None)
            if left is None:
                ordered[todo.pop()] = None
            else:
                todo.append(left)
    return list(ordered)
