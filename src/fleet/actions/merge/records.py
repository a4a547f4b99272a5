"""Records of merges: notes in the merged tasks, and recovery of interrupted merges."""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import TYPE_CHECKING

from fleet.actions.merge.choice import merged_of
from fleet.core.errors import FleetError, TaskNotFound
from fleet.core.ids import new_uuid
from fleet.core.task import MERGED, RESOLVES, Comment
from fleet.files import lock_within, make_private
from fleet.git.merge.branch_move import drop, entries, finish
from fleet.git.repository import Repository
from fleet.git.view import View
from fleet.git.work_done import note_move

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from fleet.actions.tasks.names import NameScope
    from fleet.assembly import Fleet
    from fleet.git.merge.branch_move import BranchMove
    from fleet.home import Home


class AnotherMerge(FleetError):
    """A merge into the same branch that is still in progress."""

    hint = "try again when it has finished, or pass --wait SECONDS"


def queue_key(repository: Repository, target: str) -> str:
    """Return a file name that is unique for this branch of this repository."""
    return f"{repository.key}-{hashlib.sha256(target.encode()).hexdigest()[:12]}"


@contextlib.contextmanager
def turn(
    home: Home, repository: Repository, target: str, *, wait: float, tell: Callable[[str], None]
) -> Iterator[None]:
    """Hold the merge lock of a branch. Wait at most `wait` seconds for other merges. Raises AnotherMerge."""
    make_private(home.locks)
    path = home.lock(f"merge-{queue_key(repository, target)}")
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(handle, target, wait, tell)
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


def _take(handle: int, target: str, wait: float, tell: Callable[[str], None]) -> None:
    if lock_within(handle, 0):
        return
    if wait > 0:
        tell(f"waiting for another merge into {target} (pid {_pid(handle)})")
    if not lock_within(handle, wait):
        raise AnotherMerge(f"another merge into {target} is running (pid {_pid(handle)})")


def _pid(handle: int) -> str:
    return os.pread(handle, 20, 0).decode("ascii", "replace")


def record(fleet: Fleet, entry: BranchMove) -> None:
    """Record the merge in each task and remove its journal entry. Repeating this is harmless."""
    if entry.ref.startswith("refs/heads/"):
        note_move(fleet.home, entry)
    with fleet.store.atomic():
        for row in entry.landing:
            _note(fleet, entry, row)
    drop(fleet.home, entry)


def finish_all(fleet: Fleet, view: View, branch: str) -> list[str]:
    """Finish interrupted merges into a branch. Return one line about each.

    The caller must hold the branch's merge lock.
    """
    done = []
    for entry in entries(fleet.home, view.repository, branch):
        if moved := finish(fleet.home, view, entry):
            record(fleet, moved.entry)
            how = f"{moved.why_not}: {entry.new[:10]} waits at {moved.ref}" if moved.why_not else ""
            done.append(f"{branch}: a merge was interrupted; {how or f'it has landed as {entry.new[:10]}'}")
        else:
            drop(fleet.home, entry)
            done.append(f"{branch}: a merge was interrupted before it changed anything; merge again")
    return done


def repair_merges(fleet: Fleet, scope: NameScope) -> Iterator[str]:
    """Finish interrupted merges of one repository or all. Skip branches that another merge is using."""
    found = {(entry.common, entry.branch): entry for entry in entries(fleet.home)}
    for entry in found.values():
        if scope.repo not in (None, entry.top):
            continue
        repository = Repository(top=entry.top, common=entry.common)
        try:
            with turn(fleet.home, repository, entry.branch, wait=0, tell=lambda _: None):
                yield from finish_all(fleet, View(fleet.home, repository), entry.branch)
        except AnotherMerge:
            continue
        except (FleetError, OSError) as error:
            yield f"{entry.branch}: a merge was interrupted, and git cannot finish it: {error}"


def _note(fleet: Fleet, entry: BranchMove, row: Mapping[str, Any]) -> None:
    try:
        task = fleet.store.tasks.get(row["task"])
    except TaskNotFound:
        return
    told = {"commit": row["commit"], "tip": row["tip"], "into": entry.branch, "strategy": row["strategy"]}
    resolved = task.metadata.get(RESOLVES)
    _keep(fleet, row["task"], told, row["by"])
    if isinstance(resolved, dict) and isinstance(resolved.get("task"), str):
        _keep(fleet, resolved["task"], told | {"tip": str(resolved.get("tip", ""))}, row["by"])


def _keep(fleet: Fleet, task_id: str, told: Mapping[str, str], by: str) -> None:
    try:
        task = fleet.store.tasks.get(task_id)
    except TaskNotFound:
        return
    if merged_of(task).get("commit") == told["commit"]:
        return
    now = fleet.store.now()
    note = dict(told) | {"at": now.isoformat(timespec="seconds")}
    fleet.store.tasks.save(task.replace(metadata=dict(task.metadata) | {MERGED: note}, updated_at=now))
    text = f"merged into {told['into']} as {told['commit']}"
    fleet.store.comments.add(Comment(id=new_uuid(), task_id=task_id, author=by, text=text, created_at=now))
