"""Texts for merges: commit messages, and the prompt for an agent that resolves a conflict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.fencing import fenced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.core.receipt import Receipt
    from fleet.core.task import Task

LONGEST_TITLE = 100
MOST_SUBJECTS = 20
MOST_FILES = 50
MOST_OTHERS = 5


def title_of(task: Task) -> str:
    words = " ".join("".join(char if char.isprintable() else " " for char in task.title).split())
    return (f"{words[: LONGEST_TITLE - 1]}…" if len(words) > LONGEST_TITLE else words) or task.branch


def trailers_of(task: Task, receipt: Receipt | None) -> tuple[str, ...]:
    """Return the trailers of a commit message: the task and the hash of its receipt."""
    found = [f"Fleet-Task: {task.id}"]
    if receipt is not None and receipt.hash:
        found.append(f"Fleet-Receipt: {receipt.hash}")
    return tuple(found)


def message(task: Task, receipt: Receipt | None, subjects: Sequence[str], *, merges: bool) -> str:
    """Return the commit message of a merged or squashed branch."""
    head = f"Merge {task.branch}: {title_of(task)}" if merges else title_of(task)
    parts = [head]
    shown = [_line(subject) for subject in subjects[:MOST_SUBJECTS] if subject.strip()]
    if len(shown) > 1 or (shown and shown[0] != f"* {title_of(task)}"):
        more = len(subjects) - len(shown)
        parts.append("\n".join([*shown, *([f"* and {more} more"] if more > 0 else [])]))
    parts.append("\n".join(trailers_of(task, receipt)))
    return "\n\n".join(parts) + "\n"


def resolve_prompt(
    task: Task, target: str, *, files: Sequence[str], own: Receipt | None, others: Sequence[tuple[Task, Receipt | None]]
) -> str:
    """Return the prompt for an agent that merges a branch with its target."""
    shown = "\n".join(_printable(name) for name in files[:MOST_FILES])
    more = f"\n(and {len(files) - MOST_FILES} more)" if len(files) > MOST_FILES else ""
    parts = [
        f"Merge {target} into the branch you are on, which holds the work of {task.id}, and resolve the conflicts.",
        f"Run `git merge --no-edit {target}`. Keep what both sides were made for: neither side's work may be lost. Run "
        "the project's tests, commit the merge, and change nothing else.",
        fenced(shown + more, "the files in conflict"),
        _side(task, own, "what the branch you are on was made for"),
    ]
    for other, receipt in list(others)[:MOST_OTHERS]:
        parts.append(_side(other, receipt, "what the other side was made for"))
    return "\n\n".join(parts)


def _side(task: Task, receipt: Receipt | None, label: str) -> str:
    lines = [f"task {task.id}: {title_of(task)}", task.description.strip()]
    if receipt is not None:
        told = receipt.told
        lines.append(f"receipt {receipt.hash[:16]}: {receipt.finding}")
        lines += [f"- {each}" for each in told.get("shown", [])]
        pieces = told.get("pieces", {})
        claims = pieces.get("claims") if isinstance(pieces.get("claims"), dict) else {}
        if claims and claims.get("summary"):
            lines.append(f"what its agent says: {claims['summary']}")
        changed = pieces.get("git") if isinstance(pieces.get("git"), dict) else {}
        names = [str(each.get("path")) for each in (changed or {}).get("files", [])[:MOST_FILES]]
        lines += ["files: " + ", ".join(map(_printable, names))] if names else []
    return fenced("\n".join(line for line in lines if line), label)


def _line(subject: str) -> str:
    """Return a subject as a list item, so that it cannot imitate a trailer of fleet's."""
    words = _printable(" ".join(subject.split()))
    return f"* {words[:LONGEST_TITLE]}"


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)
