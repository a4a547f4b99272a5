"""Conflict tasks: an agent merges a conflicting branch with its target, on a separate branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.actions.tasks import create
from fleet.actions.tasks.create import AgentRequest, CreateOptions, TaskCreator
from fleet.core.errors import FleetError
from fleet.core.filter import Filter
from fleet.core.quoting import fence_text
from fleet.core.task import MERGE, RESOLVES, Status
from fleet.git.commits import merge_base

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.actions.merge.choice import MergeItem
    from fleet.assembly import Fleet
    from fleet.core.receipt import Receipt
    from fleet.core.task import Task
    from fleet.git.view import View


LONGEST_TITLE = 100
MOST_SUBJECTS = 20
MOST_NAMED_FILES = 50
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
    shown = "\n".join(_printable(name) for name in files[:MOST_NAMED_FILES])
    more = f"\n(and {len(files) - MOST_NAMED_FILES} more)" if len(files) > MOST_NAMED_FILES else ""
    parts = [
        f"Merge {target} into the branch you are on, which holds the work of {task.id}, and resolve the conflicts.",
        f"Run `git merge --no-edit {target}`. Keep what both sides were made for: neither side's work may be lost. Run "
        "the project's tests, commit the merge, and change nothing else.",
        fence_text(shown + more, "the files in conflict"),
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
        names = [str(each.get("path")) for each in (changed or {}).get("files", [])[:MOST_NAMED_FILES]]
        lines += ["files: " + ", ".join(map(_printable, names))] if names else []
    return fence_text("\n".join(line for line in lines if line), label)


def _line(subject: str) -> str:
    """Return a subject as a list item, so that it cannot imitate a trailer of fleet's."""
    words = _printable(" ".join(subject.split()))
    return f"* {words[:LONGEST_TITLE]}"


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)


#: Limits of the search for the tasks that made the other side.
MOST_FILES, MOST_COMMITS = 50, 200
MOST_NAMES = 20


def hand_over(fleet: Fleet, view: View, item: MergeItem, files: Sequence[str], *, target: str, by: str) -> str:
    """Create a task that resolves a conflict, or find the existing one. Return a sentence about it.

    `target` is the ref to merge with.
    """
    if known := _known(fleet, item):
        how = "has resolved it: merge that" if known.status == Status.CLOSED else "is to resolve it"
        return f"{known.id} {how}"
    others = [(task, _receipt(fleet, task)) for task in _other_side(fleet, view, item, files, target)]
    prompt = resolve_prompt(item.task, target, files=files, own=item.receipt, others=others)
    wish = AgentRequest(branch=_branch(view, item), prompt=prompt, coder=item.task.coder, model=item.task.model)
    verify = "" if item.task.made_by else item.task.verify  # an agent's own command cannot be the only check
    terms = CreateOptions(base=item.tip or "", headless=True, verify=verify)
    try:
        made = create.create(fleet, view.repository.top, [wish], terms, TaskCreator(origin=MERGE, by=by)).tasks[0]
    except FleetError as error:
        return f"cannot ask an agent to resolve it: {error}"
    with fleet.store.atomic():
        task = fleet.store.tasks.get(made.id)
        note = {"task": item.task.id, "tip": item.tip}
        title = f"resolve the conflict of {item.task.branch}"
        fleet.store.tasks.save(task.replace(title=title, metadata=dict(task.metadata) | {RESOLVES: note}))
    return f"{made.id} will resolve it on branch {made.branch}"


def _known(fleet: Fleet, item: MergeItem) -> Task | None:
    """Return the existing task about this conflict, or None."""
    for task in fleet.store.tasks.find(Filter(metadata_key=RESOLVES, origins=(MERGE,)), sort="created"):
        told = task.metadata.get(RESOLVES)
        if isinstance(told, dict) and (told.get("task"), told.get("tip")) == (item.task.id, item.tip):
            return task
    return None


def _branch(view: View, item: MergeItem) -> str:
    names = [f"merge/{item.task.branch}"[:90] + (f"-{number}" if number else "") for number in range(MOST_NAMES)]
    tips = view.resolve(*(f"refs/heads/{name}" for name in names))
    return next((name for name, tip in zip(names, tips, strict=True) if tip is None), names[-1])


def _other_side(fleet: Fleet, view: View, item: MergeItem, files: Sequence[str], target: str) -> list[Task]:
    """Return the tasks whose merges changed these files in the target since the branch started."""
    onto = view.commit_of(target)
    base = merge_base(view, onto, item.tip) if onto and item.tip else None
    if not onto or not base:
        return []
    words = ("log", f"--max-count={MOST_COMMITS}", "--format=%(trailers:key=Fleet-Task,valueonly)", onto, f"^{base}")
    told = view.git(*words, "--", *files[:MOST_FILES], env={"GIT_LITERAL_PATHSPECS": "1"}).decode(errors="replace")
    ids = tuple(dict.fromkeys(line.strip() for line in told.splitlines() if line.strip()))
    return fleet.store.tasks.find(Filter(ids=ids), sort="oldest") if ids else []


def _receipt(fleet: Fleet, task: Task) -> Receipt | None:
    found = fleet.store.receipts.of_task(task.id)
    return found[-1] if found else None
