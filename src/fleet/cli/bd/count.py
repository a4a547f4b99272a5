"""bd count, status and blocked: numbers of tasks, and blocked tasks with their blockers."""

from __future__ import annotations

from fleet.beads.format import issue
from fleet.cli.bd.filters import FILTER_FLAGS, read_filter, read_statuses
from fleet.cli.text import clean
from fleet.core.dependency import HARD, PARENT_CHILD, WAITS_FOR
from fleet.core.errors import UsageError
from fleet.core.filter import Filter
from fleet.core.task import RESOLVED, Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fleet.cli.bd.session import Session
    from fleet.core.task import Task

GROUPS = ("status", "priority", "type", "assignee", "label")

FLAGS = {
    "count": FILTER_FLAGS
    + """
--by-status   | one number per status
--by-priority | one number per priority
--by-type     | one number per type
--by-assignee | one number per assignee
--by-label    | one number per label
""",
    "stats": """
--assigned    | only what is assigned to you
--no-activity | accepted; git is not asked
--no-blocked  | accepted; it costs nothing here
--all         | accepted; all tasks are counted
""",
    "blocked": """
--parent TEXT        | only what lies below this task
-l --label LIST      | with all of these labels
--label-any LIST     | with one of these labels
--exclude-label LIST | without these labels
""",
}


def count(session: Session) -> int:
    chosen = [name for name in GROUPS if session.arguments.flag(f"by-{name}")]
    if len(chosen) > 1:
        raise UsageError("only one --by-* flag can be specified")
    with session.store.snapshot():
        where = read_filter(session).replace(statuses=read_statuses(session))
        total = session.store.tasks.count(where)[""]
        groups = _groups(session, where, chosen[0]) if chosen else {}
    if session.json:
        rows = [{"group": name, "count": number} for name, number in groups.items()]
        return session.answer({"total": total, "groups": rows} if chosen else {"count": total})
    lines = [f"Total: {total}", "", *(f"{clean(name)}: {number}" for name, number in groups.items())]
    session.say("\n".join(lines) if chosen else str(total))
    return 0


def stats(session: Session) -> int:
    """Run bd status, also called stats."""
    where = Filter(assignee=session.actor) if session.arguments.flag("assigned") else Filter()
    with session.store.snapshot():
        by_status = session.store.tasks.count(where, by="status")
        blocked_count = session.store.tasks.count(where.replace(blocked=True))[""]
        pinned = session.store.tasks.count(where.replace(pinned=True))[""]
    summary = {
        "total_issues": sum(by_status.values()),
        "open_issues": by_status.get(Status.OPEN, 0),
        "in_progress_issues": by_status.get(Status.IN_PROGRESS, 0),
        "closed_issues": by_status.get(Status.CLOSED, 0),
        "blocked_issues": blocked_count,
        "deferred_issues": by_status.get(Status.DEFERRED, 0),
        "ready_issues": max(0, by_status.get(Status.OPEN, 0) - blocked_count),
        "pinned_issues": pinned,
        "epics_eligible_for_closure": 0,  # bd has this field and never fills it
        "average_lead_time_hours": 0,
    }
    if session.json:
        return session.answer({"summary": summary})
    _show_summary(session, summary)
    return 0


def blocked(session: Session) -> int:
    with session.store.snapshot():
        where = read_filter(session)
        found = session.store.tasks.find(where.replace(parent=None, under=where.parent, blocked=True))
        holders = _holders(session, found)
    if session.json:
        rows = [{**issue(t), "blocked_by_count": len(holders[t.id]), "blocked_by": holders[t.id]} for t in found]
        return session.answer(rows)
    if not found:
        session.say("\n✨ No blocked issues\n")
        return 0
    session.say(f"\n🚫 Blocked issues ({len(found)}):\n")
    for task in found:
        needs = holders[task.id]
        session.say(f"[P{task.priority}] {task.id}: {clean(task.title)}")
        session.say(f"  Blocked by {len(needs)} open dependencies: [{' '.join(needs)}]\n")
    return 0


def _groups(session: Session, where: Filter, by: str) -> dict[str, int]:
    found = session.store.tasks.count(where, by=by)
    if by == "priority":
        found = {f"P{name}": number for name, number in found.items()}
    elif by == "assignee":
        found = {name or "(unassigned)": number for name, number in found.items()}
    elif by == "label":
        without = session.store.tasks.count(where.replace(unlabelled=True))[""]
        found |= {"(no labels)": without} if without else {}
    return dict(sorted(found.items()))


def _show_summary(session: Session, summary: dict[str, int]) -> None:
    rows = [
        ("Total Issues:", "total_issues"),
        ("Open:", "open_issues"),
        ("In Progress:", "in_progress_issues"),
        ("Blocked:", "blocked_issues"),
        ("Closed:", "closed_issues"),
        ("Ready to Work:", "ready_issues"),
    ]
    session.say("\n📊 Issue Database Status\n\nSummary:")
    session.say("\n".join(f"  {label:<23} {summary[name]}" for label, name in rows))
    if summary["pinned_issues"]:
        session.say(f"\nExtended:\n  {'Pinned:':<23} {summary['pinned_issues']}")
    session.say("\nFor more details, use 'bd list' to see individual issues.\n")


def _holders(session: Session, found: list[Task]) -> dict[str, list[str]]:
    """Return the blockers of each task.

    These are its open blockers, else the task whose children it waits for, else its blocked parent.
    """
    edges = session.store.edges.find([task.id for task in found])
    needed = tuple({edge.needs for edge in edges})
    others = {task.id: task for task in session.store.tasks.find(Filter(ids=needed), sort="id")}
    holders: dict[str, list[str]] = {task.id: [] for task in found}
    for kinds in (HARD, (WAITS_FOR,), (PARENT_CHILD,)):
        empty = {key for key, needs in holders.items() if not needs}
        for edge in edges:
            if edge.type in kinds and edge.task in empty and _holds(edge.type, others.get(edge.needs)):
                holders[edge.task].append(edge.needs)
    return holders


def _holds(kind: str, other: Task | None) -> bool:
    if other is None:
        return kind in HARD  # in another queue, so its status is unknown here
    return (kind in HARD and other.status not in RESOLVED) or kind == WAITS_FOR or other.is_blocked
