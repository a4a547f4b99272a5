"""Text formats of issues: bd's marks and lines, safe for a terminal."""

from __future__ import annotations

from fleet.core.quoting import clean as clean
from fleet.core.task import Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fleet.core.task import Task

MARKS = {
    Status.OPEN: "○",
    Status.IN_PROGRESS: "◐",
    Status.BLOCKED: "●",
    Status.CLOSED: "✓",
    Status.DEFERRED: "❄",
    Status.PINNED: "📌",
    Status.HOOKED: "◇",
}
RULE = "-" * 80
LEGEND = (
    "\nStatus: ○ open  ◐ in_progress  ● blocked  ✓ closed  ❄ deferred\nPriority: P0–P4 (label only; not a status icon)"
)


def shown(lines: str) -> str:
    """Return lines without control characters, so that they cannot control the terminal."""
    return lines if lines.isprintable() else "\n".join(map(clean, lines.split("\n")))


def block(text: str, indent: str = "  ") -> str:
    return "\n".join(indent + clean(line.expandtabs()) for line in text.splitlines())


def mark(task: Task) -> str:
    """Return the mark of a task's status."""
    return MARKS.get(task.status, "◌")


def tag(task: Task) -> str:
    """Return a tag for bugs and epics, else ""."""
    return f"[{task.type}] " if task.type in ("bug", "epic") else ""


def short(task: Task) -> str:
    """Return one line: mark, ID, priority, type and title."""
    kind = f"{clean(task.type)} " if task.status == Status.CLOSED and not tag(task) else tag(task)
    return f"{mark(task)} {task.id} P{task.priority} {kind}{clean(task.title)}"
