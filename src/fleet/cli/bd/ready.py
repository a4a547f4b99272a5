"""bd ready: tasks that can start now; --claim takes the first one."""

from __future__ import annotations

from fleet.actions.tasks import tasks
from fleet.beads.format import issue
from fleet.cli.bd.filters import limit_of, read_filter
from fleet.cli.bd.issue import parent_of, with_counts
from fleet.cli.text import LEGEND, RULE, clean, short
from fleet.core.dependency import BLOCKING, PARENT_CHILD
from fleet.core.errors import BadInput, UsageError
from fleet.core.filter import Filter
from fleet.core.task import RESOLVED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fleet.cli.bd.session import Session
    from fleet.core.task import Task

FLAGS = {
    "ready": """
-n --limit INT          | how many at most (default 100, 0 is all)
-p --priority TEXT      | 0-4 or P0-P4
-a --assignee TEXT      | whose
-u --unassigned         | without an assignee
-s --sort TEXT          | priority (default), hybrid or oldest
-l --label LIST         | with all of these labels
--label-any LIST        | with one of these labels
--exclude-label LIST    | without these labels
-t --type LIST          | types
--exclude-type LIST     | not these types
--parent TEXT           | below this task
--include-deferred      | also what is put off
--include-ephemeral     | also ephemeral tasks
--metadata-field EACH   | key=value in the metadata
--has-metadata-key TEXT | with this key in the metadata
--claim                 | take the first one
--explain               | say why each is ready or blocked
--plain                 | a numbered list
--pretty                | accepted
--mol TEXT              | not supported
--mol-type TEXT         | not supported
--gated                 | not supported
""",
}

SORTS = {"priority": "urgent", "oldest": "oldest", "hybrid": "hybrid"}
USUAL_LIMIT = 100


def ready(session: Session) -> int:
    arguments = session.arguments
    for flag in ("mol", "mol-type", "gated"):
        if arguments.has(flag):
            raise UsageError(f"--{flag} is not supported by fleet bd", hint="fleet has tasks and dependencies only")
    sort = SORTS.get(arguments.text("sort", "priority"))
    if sort is None:
        raise BadInput(f"invalid sort policy '{arguments.text('sort')}'. Valid values: hybrid, priority, oldest")
    if arguments.flag("claim"):
        return _claim(session, sort)
    limit = limit_of(session, USUAL_LIMIT)
    with session.store.snapshot():
        where = _where(session)
        found = session.store.tasks.find(where, sort=sort, limit=limit + 1 if limit else 0)
        more = bool(limit) and len(found) > limit
        found = found[:limit] if limit else found
        if arguments.flag("explain"):
            return _explain(session, found)
        if session.json:
            session.answer(with_counts(session.store, found))
        elif arguments.flag("plain"):
            _show_plain(session, found)
        else:
            _show(session, found)
        if more:
            _note_more(session, len(found))
    return 0


def _where(session: Session) -> Filter:
    arguments = session.arguments
    where = read_filter(session)
    found: dict[str, Any] = {"ready": True, "parent": None, "under": where.parent}
    found["due_to_start"] = None if arguments.flag("include-deferred") else True
    found["work"] = None if where.types is not None else True
    found["ephemeral"] = None if arguments.flag("include-ephemeral") else False
    return where.replace(**found)


def _claim(session: Session, sort: str) -> int:
    for flag in ("assignee", "explain"):
        if session.arguments.has(flag):
            raise UsageError(f"--claim cannot be combined with --{flag}")
    where = _where(session)
    task = tasks.claim_first(session.store, where, session.actor, sort=sort)
    if session.json:
        return session.answer(with_counts(session.store, [task] if task else []))
    session.say(f"✓ Claimed issue: {task.id} — {clean(task.title)}" if task else "\n○ No ready work to claim\n")
    return 0


def _show(session: Session, found: list[Task]) -> None:
    if not found:
        session.say("\n✨ No ready work found\n")
        return
    parents = {e.task: e.needs for e in session.store.edges.find([t.id for t in found]) if e.type == PARENT_CHILD}
    names = {
        task.id: task.title for task in session.store.tasks.find(Filter(ids=tuple(set(parents.values()))), sort="id")
    }
    for task in found:
        parent = names.get(parents.get(task.id, ""))
        session.say(short(task) + (f" ← {clean(parent)}" if parent else ""))
    session.say(f"\n{RULE}\nReady: {len(found)} issues with no active blockers\n{LEGEND}")


def _show_plain(session: Session, found: list[Task]) -> None:
    session.say(f"\n📋 Ready work ({len(found)} issues with no active blockers):\n")
    for number, task in enumerate(found, 1):
        session.say(f"{number}. [P{task.priority}] [{task.type}] {task.id}: {clean(task.title)}")
        if task.assignee:
            session.say(f"   Assignee: {clean(task.assignee)}")
    session.say("")


def _note_more(session: Session, count: int) -> None:
    # The total is not shown: counting the tasks would cost more than showing them.
    tell = session.warn if session.json else session.say
    tell(f"Showing {count} ready issues; there are more. Use --limit 0 for all, or --limit N to raise the cap.")


def _explain(session: Session, found: list[Task]) -> int:
    blocked = session.store.tasks.find(Filter(blocked=True, unfinished=True))
    ids = [task.id for task in (*found, *blocked)]
    edges = session.store.edges.find(ids)
    others = {t.id: t for t in session.store.tasks.find(Filter(ids=tuple({e.needs for e in edges})), sort="id")}
    tallies = session.store.tasks.tallies(ids)
    needs: dict[str, list[Task]] = {}
    for edge in edges:
        if edge.type in BLOCKING and edge.needs in others:
            needs.setdefault(edge.task, []).append(others[edge.needs])
    ready_rows = [
        {
            **issue(task),
            "reason": "all blockers resolved" if needs.get(task.id) else "no blocking dependencies",
            "resolved_blockers": [each.id for each in needs.get(task.id, [])] or None,
            "dependency_count": tallies[task.id].blockers,
            "dependent_count": tallies[task.id].blocked,
            **parent_of(edge for edge in edges if edge.task == task.id),
        }
        for task in found
    ]
    holding = {task.id: [each for each in needs.get(task.id, []) if each.status not in RESOLVED] for task in blocked}
    if not session.json:
        return _show_explained(session, ready_rows, blocked, holding)
    blocked_rows = [
        {
            **issue(task),
            "blocked_by": [
                {"id": each.id, "title": each.title, "status": each.status, "priority": each.priority}
                for each in holding[task.id]
            ],
            "blocked_by_count": len(holding[task.id]),
        }
        for task in blocked
    ]
    summary = {"total_ready": len(found), "total_blocked": len(blocked), "cycle_count": 0}
    return session.answer({"ready": ready_rows, "blocked": blocked_rows, "summary": summary})


def _show_explained(
    session: Session, rows: list[dict[str, Any]], blocked: list[Task], holding: dict[str, list[Task]]
) -> int:
    session.say(f"\n📊 Ready Work Explanation\n\n● Ready ({len(rows)} issues):\n")
    for row in rows:
        session.say(f"  {row['id']} [P{row['priority']}] {clean(row['title'])}\n    Reason: {row['reason']}")
        if row["dependent_count"]:
            session.say(f"    Unblocks: {row['dependent_count']} issue(s)")
        session.say("")
    session.say(f"● Blocked ({len(blocked)} issues):\n")
    for task in blocked:
        session.say(f"  {task.id} [P{task.priority}] {clean(task.title)}")
        for each in holding[task.id]:
            session.say(f"    ← blocked by {each.id}: {clean(each.title)} [{each.status}]")
        session.say("")
    session.say(f"─ Summary: {len(rows)} ready, {len(blocked)} blocked\n")
    return 0
