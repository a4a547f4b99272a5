"""A bd that is made to have every task that the home's file has, and no other: for a queue that is moved into it."""

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
#: How many tasks one call may name.
MOST_IDS = 100
#: Settings of the queue that bd goes by too; its prefix it is given when its folder is made, and never again.
PREFIX = "issue_prefix"
SETTINGS = ("status.custom", "types.custom")
#: bd's setting that says which queue it has the tasks of.
NAME = "custom.fleet_queue"


def fill(bd: Bd, store: Store, name: str, *, keep: Callable[[str], None], tell: Callable[[str, int], None]) -> None:
    """Make bd have all tasks with what they need and what was said of them; what it alone has is deleted there.

    Of a bd that has other tasks or has them otherwise, all is handed to `keep` first. Call it with the queue's lock.
    Raises IllegalMove for a bd with tasks of another queue, StoreFault where not all arrived, Refused, StoreAway.
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
    # An import adds labels, comments and edges, and takes none away: then a task is deleted and made anew. bd changes
    # what others say of one that it deletes, so those are imported a last time.
    for anew in (False, True, False):
        if not found:
            return
        _send(bd, known, found, anew=anew, tell=tell)
        found = difference(bd.run("export", "--all"), known)
    if found:
        raise unlike(found)


def compare(bd: Bd, store: Store) -> None:
    """See that bd has what the file has, and nothing else. Raises StoreFault, StoreAway."""
    if found := difference(bd.run("export", "--all"), known_in(store)):
        raise unlike(found)


def sign(bd: Bd, name: str) -> None:
    """Have bd say which queue its tasks are of, so that they can come back to it."""
    if _setting(bd, NAME) != name:
        _set(bd, NAME, name)


def unlike(found: Difference) -> StoreFault:
    """The fault of a bd that has not the same tasks."""
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
    """The tasks, each after those that it needs; where they need each other in a circle, as they come."""
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
