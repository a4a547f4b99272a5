"""Creating, changing, claiming and closing tasks."""

from __future__ import annotations

from fleet.core import checks, ids
from fleet.core.dependency import BLOCKS, EXTERNAL, HARD, PARENT_CHILD, WELL_KNOWN, Edge
from fleet.core.errors import AmbiguousId, BadInput, FleetError, IllegalMove, TaskExists, TaskNotFound
from fleet.core.filter import READY, Filter
from fleet.core.record import Record
from fleet.core.task import RESOLVED, Status, Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import Any

    from fleet.core.patch import Patch
    from fleet.store.base import Store

DEFAULT_PREFIX = "fleet"


class Draft(Record):
    """A task to create: its fields and its links to other tasks."""

    fields: dict[str, Any]
    id: str = ""
    parent: str = ""
    inherit_labels: bool = True
    force: bool = False
    needs: tuple[tuple[str, str, str], ...] = ()  # (type, id, metadata): the new task waits for each
    holds: tuple[tuple[str, str], ...] = ()  # (type, id): each waits for the new task


class GuardMismatch(FleetError):
    """The task was changed in the meantime and no longer matches the caller's condition."""

    exit_code = 13


def find_id(store: Store, text: str, *, guess: bool = True) -> str:
    """Return the id that a text means: an exact id or, with `guess`, one without the prefix or a unique part of it.

    Raises TaskNotFound, AmbiguousId.
    """
    prefix = store.config.all().get("issue_prefix", DEFAULT_PREFIX)
    for candidate in (text, f"{prefix}-{text}") if guess else (text,):
        found = store.tasks.find(Filter(ids=(candidate,)), sort="id", limit=1)
        if found:
            return candidate
    if guess and text:
        part = text.removeprefix(prefix + "-")
        candidates = [task.id for task in store.tasks.find(Filter(id_has=part), sort="id", limit=6)] if part else []
        if len(candidates) > 1:
            raise AmbiguousId(text, candidates)
        if candidates:
            return candidates[0]
    raise TaskNotFound(text)


def create(store: Store, draft: Draft, *, actor: str) -> tuple[Task, list[str]]:
    """Create a task with its links in one transaction. Return it with warnings about links to unknown tasks."""
    with store.atomic():
        now = store.now()
        parent = store.tasks.get(find_id(store, draft.parent)) if draft.parent else None
        fields = dict(draft.fields)
        if parent is not None and draft.inherit_labels:
            fields["labels"] = tuple(sorted({*fields.get("labels", ()), *parent.labels}))
        key = _new_id(store, draft, parent)
        task = Task(id=key, created_at=now, created_by=actor, updated_at=now, **fields)
        store.tasks.add(task.replace(started_at=now) if task.status == Status.IN_PROGRESS else task)
        if parent is not None:
            store.edges.add(Edge(task=key, needs=parent.id, type=PARENT_CHILD, created_at=now, created_by=actor))
        warnings = _tie(store, key, draft, actor, now)
        return store.tasks.get(key), warnings


def update(store: Store, task_id: str, patch: Patch, *, guard: Callable[[Task], None] | None = None) -> Task:
    """Apply a patch to one task. First call the guard with the task's current state; it may raise."""
    with store.atomic():
        task = store.tasks.get(task_id)
        if guard is not None:
            guard(task)
        store.tasks.save(patch.on(task, store.now()))
        return store.tasks.get(task_id)


def move_under(store: Store, task_id: str, parent: str, *, actor: str) -> None:
    """Give a task another parent. "" removes its parent."""
    with store.atomic():
        for edge in store.edges.find([task_id]):
            if edge.type == PARENT_CHILD:
                store.edges.remove(task_id, edge.needs)
        if parent:
            target = find_id(store, parent)
            store.edges.add(
                Edge(task=task_id, needs=target, type=PARENT_CHILD, created_at=store.now(), created_by=actor)
            )


def close(store: Store, task_id: str, reason: str, *, actor: str, force: bool, session: str = "") -> Task:
    """Close a task.

    Raises IllegalMove, unless forced, if it is pinned, a template, blocked, someone else's or an epic with open
    children.
    """
    with store.atomic():
        task = store.tasks.get(task_id)
        if task.status != Status.CLOSED and not force:
            _refuse_to_close(store, task, actor)
        store.tasks.save(task.closed(reason, store.now(), session))
        return store.tasks.get(task_id)


def hand_in(store: Store, task_id: str, reason: str) -> Task:
    """Record that a live run declares its task done. Return the task as if it were closed."""
    with store.atomic():
        now = store.now()
        task = store.tasks.get(task_id).handed_in(reason, now)
        store.tasks.save(task)
        return task.replace(status=Status.CLOSED, closed_at=now, close_reason=reason)


def reopen(store: Store, task_id: str) -> Task:
    with store.atomic():
        task = store.tasks.get(task_id)
        store.tasks.save(task.reopened(store.now()))
        return store.tasks.get(task_id)


def claim_first(store: Store, where: Filter, actor: str, *, sort: str = "urgent") -> Task | None:
    """Claim the first unassigned task that fits, in one transaction. Return None if none fits."""
    with store.atomic():
        for task in store.tasks.find(where.replace(unassigned=True), sort=sort, limit=1):
            return store.claims.take(task.id, actor)
    return None


def unblocked_by(store: Store, task_id: str) -> list[Task]:
    waiting = [edge.task for edge in store.edges.find([task_id], up=True) if edge.type != PARENT_CHILD]
    return store.tasks.find(READY.replace(ids=tuple(waiting))) if waiting else []


def open_blockers(store: Store, task: Task) -> list[str]:
    needed = tuple(edge.needs for edge in store.edges.find([task.id]) if edge.type in HARD)
    return (
        [each.id for each in store.tasks.find(Filter(ids=needed, not_statuses=RESOLVED), sort="id")] if needed else []
    )


def parse_dependency(spec: str) -> tuple[str, str, bool]:
    """Return the parts of `id` or `type:id`: the type, the other task, and whether the other task waits."""
    kind, colon, other = spec.partition(":")
    if not colon or spec.startswith(EXTERNAL):
        return BLOCKS, spec, False
    kind, other = kind.strip(), other.strip()
    if kind in ("blocked-by", "depends-on"):
        return BLOCKS, other, False
    if kind == BLOCKS:
        return BLOCKS, other, True
    if kind not in WELL_KNOWN:
        valid = ", ".join(sorted({*WELL_KNOWN, "blocked-by", "depends-on"}))
        raise BadInput(f'unknown dependency type "{kind}"; valid types: {valid}')
    return kind, other, False


def _new_id(store: Store, draft: Draft, parent: Task | None) -> str:
    if draft.id:
        return _chosen_id(store, draft)
    if parent is not None:
        return f"{parent.id}.{store.tasks.next_child(parent.id)}"
    prefix = store.config.all().get("issue_prefix", DEFAULT_PREFIX)
    for length in range(ids.name_length(store.tasks.size(prefix)), ids.LONGEST + 1):
        for _ in range(10):
            key = ids.new_id(prefix, length)
            if not store.tasks.find(Filter(ids=(key,)), sort="id", limit=1):
                return key
    raise FleetError("no free id was found", hint="try again, or choose one with --id")


def _chosen_id(store: Store, draft: Draft) -> str:
    key = checks.task_id(draft.id)
    prefix = store.config.all().get("issue_prefix", DEFAULT_PREFIX)
    if not key.startswith(prefix + "-") and not draft.force:
        raise BadInput(
            f"prefix mismatch: database uses '{prefix}-' but ID '{key}' doesn't match (use --force to override)"
        )
    if store.tasks.find(Filter(ids=(key,)), sort="id", limit=1):
        raise TaskExists(f"{key} already exists; use bd update, or bd import for upsert semantics")
    return key


def _tie(store: Store, key: str, draft: Draft, actor: str, now: datetime) -> list[str]:
    warnings = []
    for kind, other, metadata in draft.needs:
        warnings += _link(store, key, other, kind, metadata, actor, now)
    for kind, other in draft.holds:
        warnings += _link(store, other, key, kind, "{}", actor, now)
    return warnings


def _link(store: Store, task: str, needs: str, kind: str, metadata: str, actor: str, now: datetime) -> list[str]:
    try:
        ends = [end if end.startswith(EXTERNAL) else find_id(store, end) for end in (task, needs)]
        store.edges.add(
            Edge(task=ends[0], needs=ends[1], type=kind, metadata=metadata, created_at=now, created_by=actor)
        )
    except TaskNotFound as error:
        return [f"failed to add dependency {task} -> {needs}: {error}"]
    return []


def _refuse_to_close(store: Store, task: Task, actor: str) -> None:
    if task.pinned or task.status == Status.PINNED:
        raise IllegalMove(f"cannot close {task.id}: it is pinned", hint="use --force to override")
    if task.is_template:
        raise IllegalMove(f"cannot close {task.id}: it is a template", hint="templates are read-only")
    if task.assignee not in ("", actor):
        raise IllegalMove(
            f'cannot close {task.id}: assignee is "{task.assignee}", actor is "{actor}"',
            hint="reclaim it, or use --force to override",
        )
    blockers = open_blockers(store, task)
    if blockers:
        raise IllegalMove(
            f"cannot close blocked issue: {task.id} is blocked by [{' '.join(blockers)}]",
            hint="use --force to override",
        )
    if task.type == "epic":
        children = store.tasks.count(Filter(parent=task.id, not_statuses=RESOLVED))[""]
        if children:
            raise IllegalMove(
                f"cannot close {task.id}: {children} open child issue(s)",
                hint="close children first or use --force to override",
            )
