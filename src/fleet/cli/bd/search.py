"""bd search, stale and children: find tasks by text, by age or by parent."""

from __future__ import annotations

from fleet.beads.format import issue
from fleet.cli.bd.filters import limit_of, read_filter, read_statuses
from fleet.cli.bd.issue import counts, with_counts
from fleet.cli.bd.list_issues import SORTS, show_total, show_tree
from fleet.cli.bd.session import NoMatch
from fleet.cli.text import clean
from fleet.core.errors import BadInput, UsageError
from fleet.core.filter import Filter
from fleet.core.task import Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fleet.cli.bd.session import Session
    from fleet.core.task import Task

FLAGS = {
    "search": """
--query TEXT            | what to look for, instead of the words
-s --status LIST        | statuses, or all (default)
-a --assignee TEXT      | whose
--no-assignee           | without an assignee
-t --type LIST          | types
-l --label LIST         | with all of these labels
--label-any LIST        | with one of these labels
--no-labels             | without labels
-n --limit INT          | how many at most (default 50, 0 is all)
--sort TEXT             | priority, created, updated, closed, status, id, title, type or assignee
-r --reverse            | the other way round
--long                  | several lines each
--priority-min TEXT     | at least this number
--priority-max TEXT     | at most this number
--created-after TEXT    | made after
--created-before TEXT   | made before
--updated-after TEXT    | changed after
--updated-before TEXT   | changed before
--closed-after TEXT     | closed after
--closed-before TEXT    | closed before
--desc-contains TEXT    | with this in the description
--notes-contains TEXT   | with this in the notes
--external-contains TEXT | with this in the external reference
--empty-description     | without a description
--metadata-field EACH   | key=value in the metadata
--has-metadata-key TEXT | with this key in the metadata
""",
    "stale": """
-d --days INT        | untouched for this many days (default 30)
-s --status TEXT     | open, in_progress, blocked or deferred (default: the first two)
-n --limit INT       | how many at most (default 50, 0 is all)
-l --label LIST      | with all of these labels
--label-any LIST     | with one of these labels
--exclude-label LIST | without these labels
""",
    "children": """
--pretty | accepted; the tree is what is shown
""",
}

USUAL_LIMIT = 50
LONGEST_AGO_DAYS = 700_000  # less than the days since the year 1, the first of the calendar
STALE_STATUSES = (Status.OPEN, Status.IN_PROGRESS, Status.BLOCKED, Status.DEFERRED)


def search(session: Session) -> int:
    arguments = session.arguments
    query = " ".join(arguments.words) or arguments.text("query")
    if not query.strip():
        raise UsageError("search query is required", hint='`bd search "some words"`')
    sort = arguments.text("sort", "priority")
    if sort not in SORTS:
        raise BadInput(f'invalid sort field "{sort}" (valid: {", ".join(SORTS)})')
    with session.store.snapshot():
        found = _search(session, query, sort)
        if session.json:
            tallies = session.store.tasks.tallies([task.id for task in found])
            return session.answer([{**issue(task), **counts(tallies[task.id])} for task in found])
    if not found:
        session.say(f"No issues found matching '{clean(query)}'")
    elif arguments.flag("long"):
        session.say(f"\nFound {len(found)} issues matching '{clean(query)}':\n")
        session.say("\n".join(map(_long, found)))
    else:
        session.say(f"Found {len(found)} issues matching '{clean(query)}':")
        session.say("\n".join(map(_line, found)))
    return 0


def stale(session: Session) -> int:
    from datetime import timedelta

    arguments = session.arguments
    days, status = arguments.number("days", 30), arguments.text("status")
    if not 1 <= days <= LONGEST_AGO_DAYS:
        raise BadInput("--days must be at least 1" if days < 1 else f"--days must be at most {LONGEST_AGO_DAYS}")
    if status and status not in STALE_STATUSES:
        raise BadInput(f"invalid status '{status}'. Valid values: {', '.join(STALE_STATUSES)}")
    now, store = session.store.now(), session.store
    where = read_filter(session).replace(updated_before=now - timedelta(days=days), template=False, ephemeral=False)
    where = where.replace(statuses=(status,) if status else STALE_STATUSES[:2])
    found = store.tasks.find(where, sort="updated", reverse=True, limit=limit_of(session, USUAL_LIMIT))
    if session.json:
        return session.answer([issue(task) for task in found])
    if not found:
        session.say("\n✨ No stale issues found (all active)\n")
        return 0
    session.say(f"\n⏰ Stale issues ({len(found)} not updated in {days}+ days):\n")
    for number, task in enumerate(found, 1):
        session.say(f"{number}. [P{task.priority}] {task.id}: {clean(task.title)}")
        session.say(f"   Status: {task.status}, Last updated: {(now - task.updated_at).days} days ago")
        session.say(f"   Assignee: {clean(task.assignee)}\n" if task.assignee else "")
    return 0


def children(session: Session) -> int:
    text = session.arguments.word(0, "the id of the parent")
    with session.store.snapshot():
        try:
            parent = session.store.tasks.get(session.find(text))
        except NoMatch as error:
            raise BadInput(f"error checking parent issue: not found: issue {text}", hint=error.hint) from error
        found = session.store.tasks.find(Filter(parent=parent.id))
        if session.json:
            return session.answer(with_counts(session.store, found))
        if not found:
            session.say(f"Issue '{parent.id}' has no children")
            return 0
        show_tree(session, [parent, *found])
        show_total(session, [parent, *found])
    return 0


def _search(session: Session, query: str, sort: str) -> list[Task]:
    arguments, limit = session.arguments, limit_of(session, USUAL_LIMIT)
    where = read_filter(session).replace(text=query, statuses=read_statuses(session))
    wanted = arguments.text("external-contains").lower()
    found = session.store.tasks.find(where, sort=sort, reverse=arguments.flag("reverse"), limit=0 if wanted else limit)
    if wanted:
        found = [task for task in found if wanted in task.external_ref.lower()]
    return found[:limit] if limit else found


def _line(task: Task) -> str:
    whose = f" @{clean(task.assignee)}" if task.assignee else ""
    labels = f" [{' '.join(map(clean, task.labels))}]" if task.labels else ""
    return f"{task.id} [P{task.priority}] [{clean(task.type)}] {task.status}{whose}{labels} - {clean(task.title)}"


def _long(task: Task) -> str:
    lines = [f"{task.id} [P{task.priority}] [{clean(task.type)}] {task.status}", f"  {clean(task.title)}"]
    lines += [f"  Assignee: {clean(task.assignee)}"] * bool(task.assignee)
    lines += [f"  Labels: [{' '.join(map(clean, task.labels))}]"] * bool(task.labels)
    return "\n".join([*lines, ""])
