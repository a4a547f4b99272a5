"""bd show: tasks in full, with their dependencies."""

from __future__ import annotations

from fleet.beads.format import comment, issue, metadata
from fleet.cli.bd.issue import parent_of
from fleet.cli.bd.session import NoMatch
from fleet.cli.text import block, clean, mark, short
from fleet.core.dependency import BLOCKS, PARENT_CHILD
from fleet.core.errors import AmbiguousId, UsageError
from fleet.core.filter import Filter
from fleet.core.jsontext import encode
from fleet.core.task import RESOLVED, Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container
    from typing import Any

    from fleet.cli.bd.session import Session
    from fleet.core.dependency import Edge
    from fleet.core.task import Task
    from fleet.store.base import Store

FLAGS = {
    "show": """
--id EACH             | a task to show
--short               | one line each
--long                | also what is rarely wanted
--children            | only its children
--refs                | only what refers to it
--include-dependents  | JSON with what depends on it
--include-comments    | JSON with its comments
--local-time          | accepted
--current             | not supported
--thread              | not supported
--as-of TEXT          | not supported
-w --watch            | not supported
""",
}

RELATED = ("related", "relates-to")
SEPARATOR = "\n\n" + "─" * 60 + "\n"


def show(session: Session) -> int:
    arguments = session.arguments
    for flag in ("current", "thread", "as-of", "watch"):
        if arguments.has(flag):
            raise UsageError(f"--{flag} is not supported by fleet bd", hint="name the tasks to show")
    wanted = arguments.words + arguments.many("id")
    if not wanted:
        raise UsageError("at least one issue ID is required (use positional args or --id)")
    with session.store.snapshot():
        found = [task for text in wanted if (task := _found(session, text)) is not None]
        if not found:
            return _nothing(session)
        for flag, view in (("children", _children), ("refs", _references)):
            if arguments.flag(flag):
                return view(session, found)
        if session.json:
            besides = {name for name in ("include-dependents", "include-comments") if arguments.flag(name)}
            return session.answer([details(session.store, task, besides) for task in found])
        if arguments.flag("short"):
            session.say("\n".join(short(task) for task in found))
        else:
            session.say(SEPARATOR.join(_page(session, task) for task in found))
    return 0


def details(store: Store, task: Task, wanted: Container[str] = ()) -> dict[str, Any]:
    """Return a task in the JSON format of bd show. `wanted` has the flags that add fields."""
    down = store.edges.find([task.id])
    tally = store.tasks.tallies([task.id])[task.id]
    found = {**issue(task), **_hydrated(store, "dependencies", [(e.needs, e.type) for e in down])}
    if "include-dependents" in wanted:
        up = store.edges.find([task.id], up=True)
        found |= _hydrated(store, "dependents", [(e.task, e.type) for e in up])
    if "include-comments" in wanted and tally.comments:
        found["comments"] = [comment(each) for each in store.comments.find([task.id])]
    found |= {
        **parent_of(down),
        "dependency_count": tally.dependencies,
        "dependent_count": tally.dependents,
        "comment_count": tally.comments,
    }
    return found


def _found(session: Session, text: str) -> Task | None:
    try:
        return session.store.tasks.get(session.find(text))
    except NoMatch:
        session.warn(f"Issue {clean(text)} not found")
    except AmbiguousId as error:
        session.warn(f"Error fetching {clean(text)}: {error}\nUse more characters to disambiguate")
    return None


def _nothing(session: Session) -> int:
    if session.json:
        session.answer({"error": "no issues found matching the provided IDs"})
    return 1


def _hydrated(store: Store, name: str, ties: list[tuple[str, str]]) -> dict[str, Any]:
    tasks = {task.id: task for task in store.tasks.find(Filter(ids=tuple(key for key, _ in ties)), sort="id")}
    rows = [{**issue(tasks[key]), "dependency_type": kind} for key, kind in ties if key in tasks]
    return {name: rows} if rows else {}


def _children(session: Session, found: list[Task]) -> int:
    children = {task.id: session.store.tasks.find(Filter(parent=task.id), sort="id") for task in found}
    if session.json:
        rows = {
            key: [{**issue(each), "dependency_type": PARENT_CHILD} for each in some] for key, some in children.items()
        }
        return session.answer(rows)
    for key, some in children.items():
        lines = [f"  ↳ {_tie(each)}" for each in some]
        session.say(
            "\n".join([f"↳ Children of {key} ({len(some)}):", *lines, ""]) if some else f"{key}: No children found"
        )
    return 0


def _references(session: Session, found: list[Task]) -> int:
    referring: dict[str, list[tuple[Task, str]]] = {}
    for task in found:
        edges = [edge for edge in session.store.edges.find([task.id], up=True)]
        tasks = {
            each.id: each for each in session.store.tasks.find(Filter(ids=tuple(e.task for e in edges)), sort="id")
        }
        referring[task.id] = [(tasks[edge.task], edge.type) for edge in edges if edge.task in tasks]
    if session.json:
        return session.answer(
            {key: [{**issue(each), "dependency_type": kind} for each, kind in some] for key, some in referring.items()}
        )
    for key, some in referring.items():
        lines = [f"  {kind}: {each.id}: {clean(each.title)} [P{each.priority} - {each.status}]" for each, kind in some]
        session.say("\n".join([f"\n📎 References to {key}:\n", *(lines or ["  (none)"]), ""]))
    return 0


def _page(session: Session, task: Task) -> str:
    kind = f" [{task.type.upper()}]" if task.type in ("bug", "epic") else ""
    lines = [f"{mark(task)} {task.id}{kind} · {clean(task.title)}   [P{task.priority} · {task.status.upper()}]"]
    lines += [" · ".join(_facts(task)), " · ".join(_dates(task))]
    for name, value in (
        ("External", task.external_ref),
        ("Spec", task.spec_id),
        ("Close reason", task.close_reason),
        ("Hand-in", task.hand_in_reason if task.handed_in_at else ""),
    ):
        lines += [f"{name}: {clean(value)}"] * bool(value)
    lines += _section("DESCRIPTION", task.description or "(none)")
    for name, text in (("DESIGN", task.design), ("NOTES", task.notes), ("ACCEPTANCE CRITERIA", task.acceptance)):
        lines += _section(name, text)
    lines += [f"\nLABELS: {', '.join(clean(label) for label in task.labels)}"] * bool(task.labels)
    shown = metadata(task)
    if shown:
        values = (
            f"  {key}: {clean(value if isinstance(value, str) else encode(value))}" for key, value in shown.items()
        )
        lines += ["\nMETADATA", *values]
    if session.arguments.flag("long") and task.estimated_minutes:
        lines += ["\nEXTENDED DETAILS", f"  Estimated: {task.estimated_minutes} minutes"]
    return "\n".join(lines + _ties(session, task) + _comments(session, task)) + "\n"


def _facts(task: Task) -> list[str]:
    facts = [f"Created by: {clean(task.created_by)}"] * bool(task.created_by)
    facts += [f"Assignee: {clean(task.assignee)}"] * bool(task.assignee)
    facts += ["Agent: at work"] * (task.is_supervised and task.status != Status.IN_PROGRESS)
    return [*facts, f"Type: {clean(task.type)}"]


def _dates(task: Task) -> list[str]:
    named = (
        ("Created", task.created_at),
        ("Started", task.started_at),
        ("Updated", task.updated_at),
        ("Closed", task.closed_at),
        ("Due", task.due_at),
        ("Deferred until", task.defer_until),
    )
    return [f"{name}: {moment:%Y-%m-%d}" for name, moment in named if moment is not None]


def _section(name: str, text: str) -> list[str]:
    return [f"\n{name}", block(text)] if text else []


def _ties(session: Session, task: Task) -> list[str]:
    down, up = session.store.edges.find([task.id]), session.store.edges.find([task.id], up=True)
    ids = {edge.needs for edge in down} | {edge.task for edge in up}
    tasks = {each.id: each for each in session.store.tasks.find(Filter(ids=tuple(ids)), sort="id")} if ids else {}

    def named(keys: list[str], sign: str) -> list[str]:
        return [f"  {sign} {_tie(tasks[key]) if key in tasks else clean(key)}" for key in keys]

    def needed(edges: list[Edge], *kinds: str) -> list[str]:
        return [edge.needs for edge in edges if edge.type in kinds]

    def needing(edges: list[Edge], *kinds: str) -> list[str]:
        return [edge.task for edge in edges if edge.type in kinds]

    parts = [
        ("PARENT", named(needed(down, PARENT_CHILD), "↑")),
        ("DEPENDS ON", named(needed(down, BLOCKS, "conditional-blocks", "waits-for"), "→")),
        ("BLOCKS", named(needing(up, BLOCKS, "conditional-blocks", "waits-for"), "←")),
        ("DISCOVERED FROM", named(needed(down, "discovered-from"), "◊")),
        ("DISCOVERED", named(needing(up, "discovered-from"), "◊")),
        ("RELATED", named(sorted({*needed(down, *RELATED), *needing(up, *RELATED)}), "↔")),
        ("CHILDREN", named(needing(up, PARENT_CHILD), "↳")),
    ]
    lines = [line for name, rows in parts if rows for line in (f"\n{name}", *rows)]
    children = [tasks[key] for key in needing(up, PARENT_CHILD) if key in tasks]
    if children:
        done = sum(1 for each in children if each.status in RESOLVED)
        share = f"{done}/{len(children)} complete ({100 * done // len(children)}%)"
        lines.append(f"  ✓ {share} — eligible for close" if done == len(children) else f"  ◐ {share}")
    return lines


def _comments(session: Session, task: Task) -> list[str]:
    said = session.store.comments.find([task.id])
    lines = ["\nCOMMENTS"] * bool(said)
    for each in said:
        lines += [f"  {each.created_at:%Y-%m-%d %H:%M} {clean(each.author)}", block(each.text, "    ")]
    return lines


def _tie(task: Task) -> str:
    kind = f"({task.type.upper()}) " if task.type in ("bug", "epic") else ""
    return f"{mark(task)} {task.id}: {kind}{clean(task.title)} P{task.priority}"
