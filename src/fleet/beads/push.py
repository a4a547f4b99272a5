"""The bd calls that apply fleet's writes: as few as possible, each with only the changed fields."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from fleet.beads.format import instant, line_of, metadata
from fleet.beads.program import GUARDED, BdRefusal, objects
from fleet.core.errors import AlreadyClaimed, ClaimLost, FleetError, StoreAway
from fleet.core.jsontext import encode
from fleet.core.task import Status

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Any

    from fleet.beads.program import Answer, Bd
    from fleet.core.dependency import Edge
    from fleet.core.task import Comment, Task


#: Fields that `bd update` can set, and their options.
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
#: Flags that `bd update` can set and clear. bd never changes a task's author and creation time.
_MARKS = {"ephemeral": ("--ephemeral", "--persistent"), "no_history": ("--no-history", "--history")}
#: Texts for agents go in by import, because other users can read a command line. So do arguments that are too long.
_TEXTS = ("--description=", "--design=", "--acceptance=")
_LONGEST_WORD = 60_000
#: Maximum number of tasks in one call.
_MOST_IDS = 100


class TaskChange(NamedTuple):
    """A task as bd has it and as it shall be. None means that the task does not exist."""

    before: Task | None
    after: Task | None


class TransactionChanges(NamedTuple):
    """All changes of a transaction."""

    tasks: Sequence[TaskChange]
    linked: Sequence[Edge] = ()
    unlinked: Sequence[Edge] = ()
    comments: Sequence[Comment] = ()


class BdCall(NamedTuple):
    """One call of bd."""

    argv: tuple[str, ...]
    ids: tuple[str, ...] = ()
    actor: str = "fleet"
    text: str = ""
    inside: tuple[str, ...] = ()  # the tasks contained in the text

    @property
    def words(self) -> tuple[str, ...]:
        return (*self.argv, *self.ids)


def list_calls(changes: TransactionChanges, *, fenced: bool) -> list[BdCall]:
    """Return the bd calls for some changes, in order.

    The order is new tasks, updates, claims, closings, edges, comments and deletions.
    """
    new = [each.after for each in changes.tasks if each.before is None and each.after is not None]
    kept = [(each.before, each.after) for each in changes.tasks if each.before is not None and each.after is not None]
    gone = [each.before.id for each in changes.tasks if each.before is not None and each.after is None]
    born = {task.id for task in new}
    found = _import_calls(new, changes)
    found += _merge_calls(step for before, after in kept for step in _updates(before, after, fenced))
    found += _merge_calls(_claim(after.id, after.assignee) for before, after in kept if is_taken(before, after))
    found += _merge_calls(_close(before, after) for before, after in kept if after.status == "closed" != before.status)
    found += _edges(changes, born, {after.id: after for _, after in kept})
    found += [_comment_call(each) for each in changes.comments if each.task_id not in born]
    found += [BdCall(("delete", "--force"), tuple(part)) for part in _split_ids(gone)]
    return found


def reverse_changes(changes: TransactionChanges, told: Collection[str], *, linked: bool) -> TransactionChanges:
    """Return the changes that undo `changes` for the tasks in `told`.

    Edges are undone only if `linked`. Comments stay: bd cannot delete a comment.
    """
    tasks = [each for each in changes.tasks if {one.id for one in each if one is not None} & set(told)]
    born = {each.after.id for each in tasks if each.before is None and each.after is not None}
    return TransactionChanges(
        [TaskChange(each.after, each.before) for each in tasks],
        linked=changes.unlinked if linked else (),
        unlinked=[each for each in changes.linked if not {each.task, each.needs} & born] if linked else (),
    )


def is_taken(before: Task, after: Task) -> bool:
    """Return True if an unheld task becomes held, which bd must confirm."""
    free = before.status != Status.IN_PROGRESS and before.assignee in ("", after.assignee)
    return free and after.status == Status.IN_PROGRESS and bool(after.assignee)


def claim_steps(taken: Sequence[tuple[Task, Task]]) -> list[BdCall]:
    """Return the calls that claim tasks for one actor.

    The first calls reopen tasks whose status or deferral would keep bd from giving them out.
    """
    waking = [before for before, _ in taken if before.status != Status.OPEN or before.defer_until is not None]
    woken = [BdCall(("update", "--status=open", "--defer="), (each.id,)) for each in waking]
    return _merge_calls(woken) + _merge_calls(_claim(after.id, after.assignee) for _, after in taken)


def _import_calls(new: Sequence[Task], changes: TransactionChanges) -> list[BdCall]:
    if not new:
        return []
    lines = []
    for task in new:
        edges = [each for each in changes.linked if each.task == task.id]
        lines.append(line_of(task, edges, [each for each in changes.comments if each.task_id == task.id]))
    return [BdCall(("import", "-", "--json"), text="".join(lines), inside=tuple(task.id for task in new))]


def _updates(before: Task, after: Task, fenced: bool) -> list[BdCall]:
    """Return the updates for one task. Changes that `bd update` cannot make are imported as a line of JSON."""
    key = (after.id,)
    words = [f"{option}={getattr(after, name)}" for name, option in _OPTIONS.items() if _differs(before, after, name)]
    taken = is_taken(before, after)
    if taken:  # the claim call sets the assignee and the status
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
        # bd must be able to refuse changes of assignee and status, so those are not imported.
        row = after.replace(status=before.status, assignee=before.assignee, closed_at=before.closed_at)
        found.append(BdCall(("import", "-", "--allow-stale", "--json"), text=line_of(row), inside=key))
        words = [word for word in words if not _is_inside(word)]
    if words:
        guard = _guard(before, after, words) if fenced else []
        found.append(BdCall(("update", *words, *guard), key, actor=before.assignee or "fleet"))
    if unset:
        found.append(BdCall(("update", *(f"--unset-metadata={name}" for name in unset)), key))
    return found


def _guard(before: Task, after: Task, words: Sequence[str]) -> list[str]:
    """Return the option that lets bd change a held task only while the expected holder still holds it."""
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
        # Otherwise bd derives a status from the date.
        found += [f"--status={after.status}"] if after.status not in (Status.CLOSED, Status.IN_PROGRESS) else []
    return found


def _labels(before: Task, after: Task) -> list[str]:
    more, fewer = set(after.labels) - set(before.labels), set(before.labels) - set(after.labels)
    # bd parses a list of labels as CSV.
    added = [f"--add-label={_csv(label)}" for label in sorted(more)]
    return added + [f"--remove-label={_csv(label)}" for label in sorted(fewer)]


def _metadata(before: Task, after: Task) -> tuple[dict[str, Any], list[str]]:
    """Return the metadata to merge and the keys to remove. fleet's own keys are set to "" to save a second call."""
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


def _claim(task_id: str, actor: str) -> BdCall:
    return BdCall(("update", "--claim", "--json"), (task_id,), actor)


def _close(before: Task, after: Task) -> BdCall:
    session = (f"--session={after.closed_by_session}",) if after.closed_by_session else ()
    reason = after.close_reason[:_LONGEST_WORD] or "Closed"
    return BdCall(("close", "--force", f"--reason={reason}", *session), (after.id,), before.assignee or "fleet")


def _comment_call(comment: Comment) -> BdCall:
    return BdCall(("comment", comment.task_id, "--stdin"), actor=comment.author or "fleet", text=comment.text)


def _edges(changes: TransactionChanges, born: set[str], kept: Mapping[str, Task]) -> list[BdCall]:
    """Return the calls for edges of tasks that bd already has.

    Plain edges go through `bd batch`; edges with metadata or a thread go in by import.
    """
    linked = [each for each in changes.linked if each.task not in born]
    special = [each for each in linked if each.thread_id or each.metadata != "{}"]
    lines = [f"dep remove {_quote_word(each.task)} {_quote_word(each.needs)}" for each in changes.unlinked]
    plain = [each for each in linked if each not in special]
    lines += [f"dep add {_quote_word(each.task)} {_quote_word(each.needs)} {_quote_word(each.type)}" for each in plain]
    found = [BdCall(("batch",), text="\n".join(lines) + "\n")] if lines else []
    more = "".join(line_of(kept[each.task], [each]) for each in special)
    return found + ([BdCall(("import", "-", "--allow-stale", "--json"), text=more)] if more else [])


def _merge_calls(found: Iterable[BdCall]) -> list[BdCall]:
    """Merge calls that differ only in their task."""
    together: dict[BdCall, list[str]] = {}
    for step in found:
        together.setdefault(step._replace(ids=()), []).extend(step.ids)
    return [step._replace(ids=tuple(part)) for step, ids in together.items() for part in (_split_ids(ids) or [[]])]


def _split_ids(ids: Sequence[str]) -> list[Sequence[str]]:
    return [ids[at : at + _MOST_IDS] for at in range(0, len(ids), _MOST_IDS)]


def _differs(before: Task, after: Task, name: str) -> bool:
    return bool(getattr(before, name) != getattr(after, name))


def _csv(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\n') else text


def _quote_word(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


log = logging.getLogger(__name__)


class BdWrites:
    """A set of changes, the bd calls that apply them, and the progress so far."""

    def __init__(self, bd: Bd, changes: TransactionChanges, *, fenced: bool) -> None:
        self._bd, self._changes, self._fenced = bd, changes, fenced
        self._steps = list_calls(changes, fenced=fenced)
        self._told: set[str] = set()
        self._linked = False

    def __bool__(self) -> bool:
        return bool(self._steps)

    def run(self) -> None:
        """Make all calls. Raises Refused, ClaimLost, AlreadyClaimed or StoreAway at the first failure."""
        for step in self._steps:
            self._run(step)
            self._linked |= step.argv[0] == "batch"

    def run_anyway(self) -> None:
        """Make all calls that bd accepts.

        If bd refuses a call, someone else changed the task, which then stays as it is.
        """
        for step in self._steps:
            try:
                self._run(step)
            except StoreAway as error:
                log.warning("bd keeps incomplete changes: %s", error)
                return
            except FleetError as error:
                log.info("bd cannot undo incomplete changes: %s", error)

    def reverse(self) -> BdWrites:
        """Return the calls that undo everything applied so far."""
        changes = reverse_changes(self._changes, self._told, linked=self._linked)
        return BdWrites(self._bd, changes, fenced=self._fenced)

    def _run(self, step: BdCall) -> None:
        if "--claim" in step.argv:
            return self._claim(step)
        told = ("--json",) if step.argv[0] == "update" else ()
        answer = self._bd.ask(*step.words, *told, actor=step.actor, text=step.text)
        applied = _list_applied(step, answer)
        self._told |= applied
        if answer.code == GUARDED:
            held = next(each.before for each in self._changes.tasks if each.before and each.before.id in step.ids)
            raise ClaimLost(held.id, held.epoch)
        # an older bd exits with 0 if only some of the tasks were changed
        if answer.code or not applied.issuperset(step.ids):
            raise BdRefusal(answer.fault)
        if step.argv[0] == "import":
            for skipped in objects(answer.out)[0].get("skipped_dependencies") or () if objects(answer.out) else ():
                raise BdRefusal(f"dependency {skipped}")
        return None

    def _claim(self, step: BdCall) -> None:
        taken = [(each.before, each.after) for each in self._changes.tasks if each.after and each.after.id in step.ids]
        lost = claim_in_bd(self._bd, [(before, after) for before, after in taken if before and after])
        self._told |= set(step.ids) - set(lost)
        if lost:
            raise AlreadyClaimed(next(iter(lost.values())))


def claim_in_bd(bd: Bd, pairs: Sequence[tuple[Task, Task]]) -> dict[str, str]:
    """Claim tasks in bd. Return the tasks that bd did not give to us, with reasons. Raises StoreAway."""
    lost: dict[str, str] = {}
    for step in claim_steps(pairs):
        answer = bd.ask(*step.words, actor=step.actor)
        if "--claim" in step.argv:
            held = {each.get("id"): each for each in objects(answer.out)}
            for key in step.ids:
                if held.get(key, {}).get("assignee") != step.actor:
                    lost[key] = answer.fault
    return lost


def _list_applied(step: BdCall, answer: Answer) -> set[str]:
    """Return the tasks that a call of bd changed."""
    if step.argv[0] == "update":
        return {str(each.get("id")) for each in objects(answer.out)} & set(step.ids)
    return set() if answer.code else {*step.ids, *step.inside}
