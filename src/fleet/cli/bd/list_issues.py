"""bd list: unfinished tasks, or the tasks selected by a filter."""

from __future__ import annotations

from fleet.cli.bd.filters import FILTER_FLAGS, hidden_statuses, limit_of, read_filter, read_statuses
from fleet.cli.bd.issue import with_counts
from fleet.cli.text import LEGEND, RULE, clean, mark, short
from fleet.core.dependency import BLOCKING, PARENT_CHILD
from fleet.core.errors import BadInput, UsageError
from fleet.core.filter import READY
from fleet.core.task import RESOLVED, Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fleet.cli.bd.session import Session
    from fleet.core.dependency import Edge
    from fleet.core.filter import Filter
    from fleet.core.task import Task

FLAGS = {
    "list_tasks": FILTER_FLAGS
    + """
--all               | also closed tasks
-n --limit INT      | how many at most (default 50, 0 is all)
--sort TEXT         | priority, created, updated, closed, status, id, title, type or assignee
-r --reverse        | the other way round
--ready             | only what can start now
--flat              | one line each, no tree
--tree              | children under their parents (default)
--pretty            | the same
--long              | accepted
--include-templates | also templates
--include-gates     | also gates
--include-infra     | also agents, roles and rigs
--skip-labels       | JSON without labels
--no-pager          | accepted; there is no pager
""",
}

SORTS = ("priority", "created", "updated", "closed", "status", "id", "title", "type", "assignee")
AGENT_LIMIT, USUAL_LIMIT = 20, 50
GATES, INFRA = ("gate",), ("agent", "role", "rig", "message")


def list_tasks(session: Session) -> int:
    arguments = session.arguments
    sort = arguments.text("sort", "hybrid" if arguments.flag("ready") else "priority")
    if sort not in (*SORTS, "hybrid"):
        raise BadInput(f'invalid sort field "{sort}" (valid: {", ".join(SORTS)})')
    if arguments.text("format") not in ("", "json"):
        raise UsageError(
            f"--format {arguments.text('format')} is not supported by fleet bd", hint="--json and --flat are"
        )
    limit = limit_of(session, _usual_limit(session))
    with session.store.snapshot():
        where = _where(session)
        found = session.store.tasks.find(
            where, sort=sort, reverse=arguments.flag("reverse"), limit=limit + 1 if limit else 0
        )
        more = bool(limit) and len(found) > limit
        found = found[:limit] if limit else found
        if session.json:
            return _answer(session, found)
        if arguments.flag("flat"):
            return show_flat(session, found)
        show_tree(session, found, sort=sort)
        show_total(session, found, more=more)
    return 0


def show_flat(session: Session, found: list[Task]) -> int:
    """Print one line per task, with its dependencies."""
    if not found:
        session.say("No issues found.")
        return 0
    ids = [task.id for task in found]
    down, up = session.store.edges.find(ids), session.store.edges.find(ids, up=True)
    for task in found:
        session.say(
            _flat_line(session, task, [e for e in down if e.task == task.id], [e for e in up if e.needs == task.id])
        )
    return 0


def show_tree(session: Session, found: list[Task], *, sort: str = "priority") -> None:
    """Print children under their parents if both are in the list."""
    if not found:
        return
    present = {task.id: task for task in found}
    parents = {
        edge.task: edge.needs
        for edge in session.store.edges.find(present)
        if edge.type == PARENT_CHILD and edge.needs in present
    }
    below: dict[str, list[Task]] = {}
    for task in found:
        below.setdefault(parents.get(task.id, ""), []).append(task)
    order = _tree_order if sort == "priority" else None

    def draw(key: str, indent: str) -> None:
        siblings = sorted(below.get(key, []), key=order) if order else below.get(key, [])
        for task in siblings:
            last = task is siblings[-1]
            branch = ("└── " if last else "├── ") if key else ""
            session.say(indent + branch + short(task))
            draw(task.id, indent + ("    " if last else "│   ") * bool(key))

    draw("", "")


def show_total(session: Session, found: list[Task], *, more: bool = False) -> None:
    """Print the line below a list: the number of tasks, and whether more match."""
    if not found:
        session.say("No issues found.")
        return
    states = [task.status for task in found]
    counts = f"({states.count(Status.OPEN)} open, {states.count(Status.IN_PROGRESS)} in progress)"
    total = f"Total: {len(found)} issues {counts}"
    if more:
        total = f"Showing {len(found)} issues {counts}; more match (truncated by --limit). Use --limit 0 for all."
    session.say(f"\n{RULE}\n{total}\n{LEGEND}")


def _where(session: Session) -> Filter:
    arguments = session.arguments
    where = read_filter(session)
    if not arguments.flag("include-templates"):
        where = where.replace(template=False)
    hidden = GATES * (not arguments.flag("include-gates")) + INFRA * (not arguments.flag("include-infra"))
    if where.types is None and hidden:
        where = where.replace(not_types=(*(where.not_types or ()), *hidden))
    if arguments.flag("ready"):
        return where.replace(ready=READY.ready, due_to_start=True, work=True)
    statuses = read_statuses(session)
    if statuses is not None:
        return where.replace(statuses=statuses, unfinished=True if Status.CLOSED not in statuses else None)
    everything = arguments.flag("all") or "all" in arguments.many("status") or where.pinned is not None
    if everything or where.ids is not None or where.closed_after is not None or where.closed_before is not None:
        return where
    return where.replace(unfinished=True, not_statuses=hidden_statuses(session))


def _usual_limit(session: Session) -> int:
    import os

    if session.arguments.flag("all"):
        return 0
    return AGENT_LIMIT if os.environ.get("BD_AGENT_MODE") == "1" or os.environ.get("CLAUDE_CODE") else USUAL_LIMIT


def _answer(session: Session, found: list[Task]) -> int:
    rows = with_counts(session.store, found)
    if session.arguments.flag("skip-labels"):
        rows = [{**row, "labels": []} for row in rows]
        return session.answer({"issues": rows, "meta": {"skip_labels": True, "count": len(rows)}})
    return session.answer(rows)


def _flat_line(session: Session, task: Task, down: list[Edge], up: list[Edge]) -> str:
    named = (
        ("parent", [edge.needs for edge in down if edge.type == PARENT_CHILD]),
        ("blocked by", needs := _open(session, [edge.needs for edge in down if edge.type in BLOCKING])),
        ("blocks", [edge.task for edge in up if edge.type in BLOCKING]),
    )
    ties = [f"{name}: {', '.join(ids)}" for name, ids in named if ids]
    sign = "●" if task.status == Status.OPEN and needs else mark(task)
    whose = f" @{clean(task.assignee)}" if task.assignee else ""
    labels = f" [{' '.join(task.labels)}]" if task.labels else ""
    tail = f" ({', '.join(ties)})" if ties else ""
    return f"{sign} {task.id} [P{task.priority}] [{task.type}]{whose}{labels} - {clean(task.title)}{tail}"


def _open(session: Session, ids: list[str]) -> list[str]:
    from fleet.core.filter import Filter

    return (
        [each.id for each in session.store.tasks.find(Filter(ids=tuple(ids), not_statuses=RESOLVED), sort="id")]
        if ids
        else []
    )


def _tree_order(task: Task) -> tuple[int, list[tuple[int, str]]]:
    parts = task.id.split(".")
    return task.priority, [(int(part), "") if part.isdigit() else (0, part) for part in parts]
