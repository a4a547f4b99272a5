"""Which calls of bd make it have what fleet wrote: as few as can be, each with only what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fleet.core.bd_format import instant, metadata
from fleet.core.jsontext import encode
from fleet.core.task import Status
from fleet.store.beads_issue import line_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Any

    from fleet.core.dependency import Edge
    from fleet.core.task import Comment, Task

#: Fields that `bd update` sets, and its options.
_OPTIONS = {
    "title": "--title",
    "description": "--description",
    "design": "--design",
    "acceptance": "--acceptance",
    "notes": "--notes",
    "spec_id": "--spec-id",
    "type": "--type",
    "assignee": "--assignee",
    "external_ref": "--external-ref",
}
#: Marks that `bd update` puts on a task and takes off it. Who made a task, and when, bd never changes.
_MARKS = {"ephemeral": ("--ephemeral", "--persistent"), "no_history": ("--no-history", "--history")}
#: What agents are told goes in by import: other users can read a command line. So do words too long for one.
_TEXTS = ("--description=", "--design=", "--acceptance=")
_LONGEST_WORD = 60_000
#: How many tasks one call may name.
_MOST_IDS = 100


class Changed(NamedTuple):
    """A task as bd has it, and as it is to be; none: not there."""

    before: Task | None
    after: Task | None


class Changes(NamedTuple):
    """All that a transaction wrote."""

    tasks: Sequence[Changed]
    linked: Sequence[Edge] = ()
    unlinked: Sequence[Edge] = ()
    comments: Sequence[Comment] = ()


class Step(NamedTuple):
    """One call of bd."""

    argv: tuple[str, ...]
    ids: tuple[str, ...] = ()
    actor: str = "fleet"
    text: str = ""
    inside: tuple[str, ...] = ()  # the tasks that the text is about

    @property
    def words(self) -> tuple[str, ...]:
        return (*self.argv, *self.ids)


def steps(changes: Changes, *, fenced: bool) -> list[Step]:
    """The calls of bd, in order: what is new, what changed, who holds it, what is done, what waits, what is gone."""
    new = [each.after for each in changes.tasks if each.before is None and each.after is not None]
    kept = [(each.before, each.after) for each in changes.tasks if each.before is not None and each.after is not None]
    gone = [each.before.id for each in changes.tasks if each.before is not None and each.after is None]
    born = {task.id for task in new}
    found = _imported(new, changes)
    found += _joined(step for before, after in kept for step in _updates(before, after, fenced))
    found += _joined(_claim(after.id, after.assignee) for before, after in kept if is_taken(before, after))
    found += _joined(_close(before, after) for before, after in kept if after.status == "closed" != before.status)
    found += _edges(changes, born, {after.id: after for _, after in kept})
    found += [_said(each) for each in changes.comments if each.task_id not in born]
    found += [Step(("delete", "--force"), tuple(part)) for part in _parts(gone)]
    return found


def undoing(changes: Changes, told: Collection[str], *, linked: bool) -> Changes:
    """What takes back some changes as far as bd was told of them: of which tasks, and whether of what needs what.

    What was said of a task stays: bd forgets no comment.
    """
    tasks = [each for each in changes.tasks if {one.id for one in each if one is not None} & set(told)]
    born = {each.after.id for each in tasks if each.before is None and each.after is not None}
    return Changes(
        [Changed(each.after, each.before) for each in tasks],
        linked=changes.unlinked if linked else (),
        unlinked=[each for each in changes.linked if not {each.task, each.needs} & born] if linked else (),
    )


def is_taken(before: Task, after: Task) -> bool:
    """Whether the task goes from nobody's hands into somebody's, which bd must agree to."""
    free = before.status != Status.IN_PROGRESS and before.assignee in ("", after.assignee)
    return free and after.status == Status.IN_PROGRESS and bool(after.assignee)


def claim_steps(taken: Sequence[tuple[Task, Task]]) -> list[Step]:
    """The calls that put tasks into one actor's hands: first what keeps bd from giving them out, then the claims."""
    waking = [before for before, _ in taken if before.status != Status.OPEN or before.defer_until is not None]
    woken = [Step(("update", "--status=open", "--defer="), (each.id,)) for each in waking]
    return _joined(woken) + _joined(_claim(after.id, after.assignee) for _, after in taken)


def _imported(new: Sequence[Task], changes: Changes) -> list[Step]:
    if not new:
        return []
    lines = []
    for task in new:
        edges = [each for each in changes.linked if each.task == task.id]
        lines.append(line_of(task, edges, [each for each in changes.comments if each.task_id == task.id]))
    return [Step(("import", "-", "--json"), text="".join(lines), inside=tuple(task.id for task in new))]


def _updates(before: Task, after: Task, fenced: bool) -> list[Step]:
    """What `bd update` can say of a change; the rest goes in as a line of JSON."""
    key = (after.id,)
    words = [f"{option}={getattr(after, name)}" for name, option in _OPTIONS.items() if _differs(before, after, name)]
    taken = is_taken(before, after)
    if taken:  # the claim itself says who holds it and how it stands
        words = [word for word in words if not word.startswith("--assignee=")]
    elif before.status != after.status and after.status != Status.CLOSED:
        words += [f"--status={after.status}"]
    if before.priority != after.priority:
        words += [f"--priority={after.priority}"]
    if after.estimated_minutes and before.estimated_minutes != after.estimated_minutes:
        words += [f"--estimate={after.estimated_minutes}"]
    words += [
        on if getattr(after, name) else off for name, (on, off) in _MARKS.items() if _differs(before, after, name)
    ]
    words += _instants(before, after, words)
    words += _labels(before, after)
    metadata, unset = _metadata(before, after)
    words += [f"--metadata={encode(metadata)}"] if metadata else []
    found = []
    if _needs_import(before, after, words):
        # Who holds it, and how it stands, is for the calls that bd can refuse.
        row = after.replace(status=before.status, assignee=before.assignee, closed_at=before.closed_at)
        found.append(Step(("import", "-", "--allow-stale", "--json"), text=line_of(row), inside=key))
        words = [word for word in words if not _is_inside(word)]
    if words:
        guard = _guard(before, after, words) if fenced else []
        found.append(Step(("update", *words, *guard), key, actor=before.assignee or "fleet"))
    if unset:
        found.append(Step(("update", *(f"--unset-metadata={name}" for name in unset)), key))
    return found


def _guard(before: Task, after: Task, words: Sequence[str]) -> list[str]:
    """How bd is told that what it guards may change: as long as it is still held by whom we think."""
    moves = any(word.startswith(("--status=", "--assignee=")) for word in words)
    if not moves or before.status != Status.IN_PROGRESS:
        return []
    return [f"--if-assignee={before.assignee}"]


def _instants(before: Task, after: Task, words: Sequence[str]) -> list[str]:
    found = []
    for name, option in (("due_at", "--due"), ("defer_until", "--defer")):
        value = getattr(after, name)
        if _differs(before, after, name) and not (name == "defer_until" and is_taken(before, after)):
            found.append(f"{option}={instant(value) if value else ''}")
    if any(word.startswith("--defer=") for word in found) and not any(word.startswith("--status=") for word in words):
        # Else bd draws its own conclusions from the date.
        found += [f"--status={after.status}"] if after.status not in (Status.CLOSED, Status.IN_PROGRESS) else []
    return found


def _labels(before: Task, after: Task) -> list[str]:
    more, fewer = set(after.labels) - set(before.labels), set(before.labels) - set(after.labels)
    # A list of labels is read as CSV.
    added = [f"--add-label={_csv(label)}" for label in sorted(more)]
    return added + [f"--remove-label={_csv(label)}" for label in sorted(fewer)]


def _metadata(before: Task, after: Task) -> tuple[dict[str, Any], list[str]]:
    """What to merge in, and the keys to take out. Fleet's own fields are emptied: that costs no second call."""
    was, now = metadata(before), metadata(after)
    merged = {key: value for key, value in now.items() if key not in was or was[key] != value}
    gone = [key for key in was if key not in now]
    merged |= dict.fromkeys((key for key in gone if key.startswith("fleet.")), "")
    return merged, [key for key in gone if not key.startswith("fleet.")]


def _needs_import(before: Task, after: Task, words: Sequence[str]) -> bool:
    explained = before.status == after.status and _differs(before, after, "close_reason")
    unestimated = bool(before.estimated_minutes) and not after.estimated_minutes
    return explained or unestimated or any(_is_inside(word) for word in words)


def _is_inside(word: str) -> bool:
    return word.startswith(_TEXTS) or len(word.encode()) > _LONGEST_WORD


def _claim(task_id: str, actor: str) -> Step:
    return Step(("update", "--claim", "--json"), (task_id,), actor)


def _close(before: Task, after: Task) -> Step:
    session = (f"--session={after.closed_by_session}",) if after.closed_by_session else ()
    reason = after.close_reason[:_LONGEST_WORD] or "Closed"
    return Step(("close", "--force", f"--reason={reason}", *session), (after.id,), before.assignee or "fleet")


def _said(comment: Comment) -> Step:
    return Step(("comment", comment.task_id, "--stdin"), actor=comment.author or "fleet", text=comment.text)


def _edges(changes: Changes, born: set[str], kept: Mapping[str, Task]) -> list[Step]:
    """Edges of tasks that bd has already: plain ones by `bd batch`, those with more to say by import."""
    linked = [each for each in changes.linked if each.task not in born]
    special = [each for each in linked if each.thread_id or each.metadata != "{}"]
    lines = [f"dep remove {_word(each.task)} {_word(each.needs)}" for each in changes.unlinked]
    plain = [each for each in linked if each not in special]
    lines += [f"dep add {_word(each.task)} {_word(each.needs)} {_word(each.type)}" for each in plain]
    found = [Step(("batch",), text="\n".join(lines) + "\n")] if lines else []
    more = "".join(line_of(kept[each.task], [each]) for each in special)
    return found + ([Step(("import", "-", "--allow-stale", "--json"), text=more)] if more else [])


def _joined(found: Iterable[Step]) -> list[Step]:
    """The same calls with those put together that differ only in the task they name."""
    together: dict[Step, list[str]] = {}
    for step in found:
        together.setdefault(step._replace(ids=()), []).extend(step.ids)
    return [step._replace(ids=tuple(part)) for step, ids in together.items() for part in (_parts(ids) or [[]])]


def _parts(ids: Sequence[str]) -> list[Sequence[str]]:
    return [ids[at : at + _MOST_IDS] for at in range(0, len(ids), _MOST_IDS)]


def _differs(before: Task, after: Task, name: str) -> bool:
    return bool(getattr(before, name) != getattr(after, name))


def _csv(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\n') else text


def _word(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
