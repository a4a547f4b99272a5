"""bd dep list, tree and cycles: views of dependencies."""

from __future__ import annotations

from fleet.actions.tasks import dependencies
from fleet.beads.format import edge as edge_json
from fleet.beads.format import issue
from fleet.cli.text import clean
from fleet.core import checks
from fleet.core.errors import UsageError
from fleet.core.filter import Filter
from fleet.core.task import Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fleet.actions.tasks.dependencies import DependencyNode
    from fleet.cli.bd.session import Session
    from fleet.core.dependency import Edge
    from fleet.core.task import Task

FLAGS = {
    "list_edges": """
--direction TEXT | down (default): what it depends on; up: what depends on it
-t --type TEXT   | only this type of dependency
""",
    "tree": """
-d --max-depth INT | how many levels to show (default 50)
--direction TEXT   | down (default), up or both
--reverse          | the same as --direction up
--status TEXT      | only what is in this status, and what leads to it
--show-all-paths   | accepted; each task is shown once
""",
}

TITLES = {"down": "Dependency tree", "up": "Dependent tree", "both": "Full dependency graph"}
BOXES = {
    Status.OPEN: "☐",
    Status.IN_PROGRESS: "◧",
    Status.BLOCKED: "⚠",
    Status.CLOSED: "☑",
    Status.DEFERRED: "❄",
}
ESCAPES = (("&", "#amp;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;"))


def list_edges(session: Session) -> int:
    up = _direction(session, ("down", "up")) == "up"
    keys = [session.find(word, doing=f"resolving {word}") for word in session.arguments.at_least(1)]
    kind = session.arguments.text("type")
    with session.store.snapshot():
        edges = [e for key in keys for e in session.store.edges.find([key], up=up) if not kind or e.type == kind]
        if len(keys) > 1 and not up:
            return _answer_raw(session, keys, edges)
        far = [each.task if up else each.needs for each in edges]
        tasks = _tasks(session, far)
    if not up:
        _warn_of_missing(session, keys[0], [each for each in edges if each.needs not in tasks])
    found = [(tasks[key], each.type) for key, each in zip(far, edges, strict=True) if key in tasks]
    if session.json:
        return session.answer([{**issue(task), "dependency_type": type_} for task, type_ in found])
    if found:
        session.say("\n".join(f"  {_line(task)} via {clean(type_)}" for task, type_ in found) + "\n")
    else:
        session.say(f"\nNo issues depend on {' '.join(keys)}" if up else f"\n{keys[0]} has no dependencies")
    return 0


def tree(session: Session) -> int:
    (word,) = session.arguments.exactly(1)
    direction = _direction(session, ("down", "up", "both"))
    depth = session.arguments.number("max-depth", 50)
    if depth < 1:
        raise UsageError("--max-depth must be >= 1")
    status = session.arguments.text("status")
    if status:
        checks.status(status, session.store.config.all())
    root = session.find(word, doing=f"resolving issue ID {word}")
    above, below = [
        dependencies.tree(session.store, root, up=up, max_depth=depth) if direction in (name, "both") else []
        for name, up in (("up", True), ("down", False))
    ]
    if status:
        above, below = (dependencies.only_status(each, status) for each in (above, below))
    whole = [*above, *below[1:]] if above else below
    if session.json:
        return session.answer([_branch(each) for each in ([*above[1:], *below] if below else above)])
    if session.arguments.text("format") == "mermaid":
        session.say(_mermaid(above, below))
    elif whole:
        session.say(f"\n🌲 {TITLES[direction]} for {root}:\n\n{_drawing(whole)}")
    else:
        session.say(f"\n{root} has no {'dependents' if direction == 'up' else 'dependencies'}")
    return 0


def cycles(session: Session) -> int:
    with session.store.snapshot():
        found = dependencies.circles(session.store)
        tasks = _tasks(session, [key for circle in found for key in circle])
    if session.json:
        return session.answer([[issue(tasks[key]) for key in circle if key in tasks] for circle in found])
    if not found:
        session.say("\n✓ No dependency cycles detected\n")
        return 0
    session.say(f"\n⚠ Found {len(found)} dependency cycle{'s' * (len(found) != 1)}:\n")
    for number, circle in enumerate(found, 1):
        session.say(f"{number}. Cycle involving:")
        session.say("\n".join(f"   - {key}: {clean(tasks[key].title)}" for key in circle if key in tasks) + "\n")
    return 0


def _direction(session: Session, allowed: tuple[str, ...]) -> str:
    given = session.arguments.text("direction") or ("up" if session.arguments.flag("reverse") else "down")
    if given not in allowed:
        names = [f"'{name}'" for name in allowed]
        raise UsageError(f"--direction must be {', '.join(names[:-1])}{',' * (len(names) > 2)} or {names[-1]}")
    return given


def _tasks(session: Session, keys: list[str]) -> dict[str, Task]:
    return {task.id: task for task in session.store.tasks.find(Filter(ids=tuple(keys)), sort="id")} if keys else {}


def _line(task: Task) -> str:
    return f"{task.id}: {clean(task.title)} [P{task.priority}] ({clean(task.status)})"


def _answer_raw(session: Session, keys: list[str], edges: list[Edge]) -> int:
    if session.json:
        return session.answer([edge_json(each) for each in edges])
    for key in dict.fromkeys(keys):
        lines = [f"  {clean(each.needs)} via {clean(each.type)}" for each in edges if each.task == key]
        session.say("\n".join([f"\n📋 Dependencies of {key}:\n", *lines]) if lines else f"\n{key} has no dependencies")
    session.say("")
    return 0


def _warn_of_missing(session: Session, key: str, missing: list[Edge]) -> None:
    if missing:
        lines = [f"  {clean(each.needs)} via {clean(each.type)}" for each in missing]
        count = f"{len(missing)} additional dependency edge(s)"
        told = [f"warning: {key} has {count} whose target is not in this queue, not shown above:", *lines]
        session.warn("\n".join([*told, f"For raw edge records, run: bd dep list {key} {key}"]))


def _branch(each: DependencyNode) -> dict[str, Any]:
    return {
        **issue(each.task),
        "depth": each.depth,
        "parent_id": each.parent,
        **({"edge_from_parent": each.type} if each.type else {}),
        "truncated": each.truncated,
    }


def _drawing(branches: list[DependencyNode]) -> str:
    lines: list[str] = []
    open_levels: set[int] = set()
    for each in reversed(branches):
        rails = "".join("│   " if level in open_levels else "    " for level in range(1, each.depth))
        corner = "" if not each.depth else "    " + rails + ("├── " if each.depth in open_levels else "└── ")
        lines.append(corner + _drawn(each))
        open_levels = {level for level in open_levels if level < each.depth} | {each.depth}
    return "\n".join(reversed(lines)) + "\n"


def _drawn(each: DependencyNode) -> str:
    line = _line(each.task)
    if each.type:
        line += f" [{clean(each.type)}]"
    elif each.task.status == Status.OPEN:
        line += " [BLOCKED]" if each.task.is_blocked else " [READY]"
    return line + " …" * each.truncated


def _mermaid(above: list[DependencyNode], below: list[DependencyNode]) -> str:
    """Return the trees as a Mermaid flowchart.

    Arrows point from the waiting task to its blocker, in both directions.
    """
    branches = {each.task.id: each for each in [*above, *below]}
    lines = ["flowchart TD"]
    for each in branches.values():
        title = clean(each.task.title)
        for char, name in ESCAPES:
            title = title.replace(char, name)
        lines.append(f'  {each.task.id}["{BOXES.get(each.task.status, "?")} {each.task.id}: {title}"]')
    lines.append("")
    lines += [f"  {each.task.id} --> {each.parent}" for each in above if each.parent]
    lines += [f"  {each.parent} --> {each.task.id}" for each in below if each.parent]
    return "\n".join(lines)
