"""Issues for people: the marks and lines bd uses, with nothing in them that could drive a terminal."""

from __future__ import annotations

from fleet.core.task import Status
from fleet.core.visible import clean as clean

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
    """Lines on their way to a terminal: whatever got into them, it cannot drive it."""
    return lines if lines.isprintable() else "\n".join(map(clean, lines.split("\n")))


def block(text: str, indent: str = "  ") -> str:
    return "\n".join(indent + clean(line.expandtabs()) for line in text.splitlines())


def mark(task: Task) -> str:
    """The sign of a task's status; one that waits for others looks blocked."""
    return MARKS.get(task.status, "◌")


def tag(task: Task) -> str:
    """What a reader should notice: bugs and epics."""
    return f"[{task.type}] " if task.type in ("bug", "epic") else ""


def short(task: Task) -> str:
    """One line: mark, id, priority, type, title."""
    kind = f"{clean(task.type)} " if task.status == Status.CLOSED and not tag(task) else tag(task)
    return f"{mark(task)} {task.id} P{task.priority} {kind}{clean(task.title)}"
