"""Import and export of tasks: read the queue in pages, and import a whole file or none of it."""

from __future__ import annotations

from fleet.actions.tasks import tasks
from fleet.actions.tasks.jsonl import LONGEST_LINE, TaskLine, read_line
from fleet.core.dependency import PARENT_CHILD, SCHEDULING, WAITS_FOR
from fleet.core.errors import BadInput, DependencyRefused, TaskNotFound
from fleet.core.filter import Filter
from fleet.core.task import COUNTS, Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fleet.core.dependency import Edge
    from fleet.core.task import Comment, Task
    from fleet.store.base import Store

PAGE = 500
#: From this number of edges on, cycles are searched once for all edges instead of once per edge.
MANY_EDGES = 100

#: Fields that stay local when an existing task is imported: its claim and its runs.
_LOCAL = (
    *("path", "claim_owner", "claim_expires_at", "run_id", "cancel_requested_at", "cancel_reason", "handed_in_at"),
    *("hand_in_reason", *COUNTS),
)
#: Fields whose changes are reported, with bd's names. Status, priority and type are reported with both values.
_TOLD = {
    **{"status": "status", "priority": "priority", "type": "type", "assignee": "assignee", "title": "title"},
    **{"description": "description", "design": "design", "acceptance": "acceptance_criteria", "notes": "notes"},
    **{"close_reason": "close_reason", "external_ref": "external_ref", "estimated_minutes": "estimate"},
    "metadata": "metadata",
}


class ImportReport:
    """The result of an import or of its rehearsal."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.kept: list[str] = []  # already present, and as new in the file or newer
        self.updated: dict[str, str] = {}  # changed fields of updated tasks, by ID
        self.ties: list[str] = []  # changed here and in the file within the same second; the local version stays
        self.stale: list[str] = []
        self.unlinked: list[str] = []
        self.duplicates = 0
        self.memories = 0
        self.ids: list[str] = []


class _Undone(Exception):
    """A signal that rolls back a rehearsal."""


class _Import:
    """An import in progress."""

    def __init__(self, store: Store, actor: str, allow_stale: bool) -> None:
        self.store, self.actor, self.allow_stale = store, actor, allow_stale
        self.config, self.now = store.config.all(), store.now()
        self.done = ImportReport()
        self.edges: list[Edge] = []
        self.commented: dict[str, str] | None = None
        self.titles: set[str] = set()


def pages(store: Store, where: Filter, *, size: int = PAGE) -> Iterator[list[Task]]:
    """Yield matching tasks in pages, ordered by ID. Call this function inside `snapshot` or `atomic`."""
    last = ""
    while found := store.tasks.find(where.replace(id_after=last), sort="id", limit=size):
        yield found
        last = found[-1].id


def import_lines(
    store: Store,
    lines: Iterable[bytes],
    *,
    actor: str,
    allow_stale: bool = False,
    dedup: bool = False,
    rehearse: bool = False,
) -> ImportReport:
    """Import all lines or none. Raises BadInput, naming the number of the wrong line."""
    work = _Import(store, actor, allow_stale)
    try:
        with store.atomic():
            if dedup:
                work.titles = {t.title.lower() for page in pages(store, Filter(unfinished=True)) for t in page}
            for number, line in enumerate(lines, 1):
                _take(work, line, number)
            _link(work)
            if rehearse:
                raise _Undone
    except _Undone:
        pass
    return work.done


def _take(work: _Import, line: bytes, number: int) -> None:
    try:
        if len(line) > LONGEST_LINE:
            raise BadInput(f"the line is longer than {LONGEST_LINE // 2**20} MiB")
        row = read_line(line, work.config, work.now)
        if isinstance(row, str):
            work.done.memories += row == "memory"
        elif row.task.title.lower() in work.titles:
            work.done.duplicates += 1
        else:
            _put(work, row)
    except BadInput as error:
        raise BadInput(f"line {number}: {error}", hint=error.hint) from error


def _put(work: _Import, row: TaskLine) -> None:
    store, done = work.store, work.done
    if not row.task.id:
        row = row.named(_new_id(work, row.task))
        store.tasks.save(row.task)
        done.made.append(row.task.id)
    elif (local := _local(store, row.task.id)) is None:
        store.tasks.add(row.task)
        done.made.append(row.task.id)
    elif not _update(work, row.task, local):
        return
    done.ids.append(row.task.id)
    work.edges += row.edges
    for comment in row.comments:
        _comment(work, comment)


def _update(work: _Import, task: Task, local: Task) -> bool:
    """Update an existing task from the file. Return False if the file's version is stale and was skipped."""
    done, changes = work.done, _changes(local, task)
    newer = task.updated_at > local.updated_at
    same_second = task.updated_at.replace(microsecond=0) == local.updated_at.replace(microsecond=0)
    if not (newer or same_second or work.allow_stale):
        done.stale.append(task.id)
        return False
    labels = tuple(sorted({*local.labels, *task.labels}))
    if newer or work.allow_stale:
        work.store.tasks.save(_merged(local, task).replace(labels=labels))
        if changes and not work.allow_stale:
            done.updated[task.id] = changes
    else:
        if labels != local.labels:
            work.store.tasks.save(local.replace(labels=labels))
        if changes:
            done.ties.append(task.id)
    done.kept.append(task.id)
    return True


def _merged(local: Task, task: Task) -> Task:
    kept = {name: getattr(local, name) for name in _LOCAL}
    if local.is_supervised:
        return task.replace(**kept, epoch=local.epoch)
    if task.status != Status.IN_PROGRESS:
        kept["claim_owner"] = ""
    reopened = local.status == Status.CLOSED != task.status
    return task.replace(**kept, epoch=max(local.epoch + reopened, task.epoch))


def _changes(local: Task, task: Task) -> str:
    parts = []
    for field, name in _TOLD.items():
        old, new = getattr(local, field), getattr(task, field)
        if old != new:
            parts.append(f"{name} {old} → {new}" if field in ("status", "priority", "type") else name)
    return ", ".join(parts)


def _new_id(work: _Import, task: Task) -> str:
    draft = tasks.Draft(fields={"title": task.title, "description": task.description})
    made, _ = tasks.create(work.store, draft, actor=work.actor)
    return made.id


def _local(store: Store, key: str) -> Task | None:
    try:
        return store.tasks.get(key)
    except TaskNotFound:
        return None


def _comment(work: _Import, comment: Comment) -> None:
    """Add a comment that does not exist yet. Old files number comments, so two tasks can use the same number."""
    if work.commented is None:
        all_pages = pages(work.store, Filter())
        said = (each for page in all_pages for each in work.store.comments.find([task.id for task in page]))
        work.commented = {each.id: each.task_id for each in said}
    if work.commented.get(comment.id, comment.task_id) != comment.task_id:
        comment = comment.replace(id=f"{comment.task_id}:{comment.id}")
    if comment.id not in work.commented:
        work.store.comments.add(comment)
        work.commented[comment.id] = comment.task_id


def _link(work: _Import) -> None:
    """Add the edges: parent-child edges late, waits-for edges last.

    Otherwise a task that waits for children would read all of them with each new child.
    """
    late = {PARENT_CHILD: 1, WAITS_FOR: 2}
    doubtful = _doubtful(work)
    for edge in sorted(work.edges, key=lambda each: late.get(each.type, 0)):
        try:
            if edge.task == edge.needs:
                raise DependencyRefused(f"cannot add self-dependency: {edge.task} cannot depend on itself")
            work.store.edges.add(edge, check_cycles=(edge.task, edge.needs) in doubtful)
        except TaskNotFound as error:
            which = "target" if error.task_id == edge.needs else "issue"
            work.done.unlinked.append(f"{edge.task} -> {edge.needs}: {which} not found")
        except DependencyRefused as error:
            work.done.unlinked.append(f"{edge.task} -> {edge.needs}: {error}")


def _doubtful(work: _Import) -> set[tuple[str, str]]:
    """Return the new edges that may close a cycle. Only these edges need the expensive search."""
    new = {(edge.task, edge.needs) for edge in work.edges if edge.type in SCHEDULING}
    if len(new) < MANY_EDGES:
        return new
    old = {(edge.task, edge.needs) for edge in work.store.edges.find() if edge.type in SCHEDULING}
    ahead = _peeled(old | new)
    back = _peeled({(needs, task) for task, needs in ahead})
    return {(task, needs) for needs, task in back} & new


def _peeled(pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Remove pairs whose end leads nowhere, repeatedly, and return the rest."""
    missing: dict[str, int] = {}
    reached: dict[str, list[str]] = {}
    for start, end in pairs:
        missing[start] = missing.get(start, 0) + 1
        reached.setdefault(end, []).append(start)
    ends = [end for end in reached if end not in missing]
    gone = set(ends)
    while ends:
        for start in reached.get(ends.pop(), ()):
            missing[start] -= 1
            if not missing[start]:
                gone.add(start)
                ends.append(start)
    return {(start, end) for start, end in pairs if start not in gone and end not in gone}
