"""Workspaces: the worktree of a task, used by all its runs until it is removed."""

from __future__ import annotations

from fleet.core.jsontext import decode
from fleet.core.record import Record

TYPE_CHECKING = False

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any


#: Keys of a worktree's notes: its requested removal, why it was kept then, and the ref that keeps its deleted branch.
TO_GO, STAYS, BRANCH_KEPT = "to_go", "stays", "branch_kept"
#: Keys for how far its work was pushed.
SENT, SENT_TO, NOT_SENT = "sent", "sent_to", "not_sent"


class RemovalRequest(Record):
    """A request from another host to remove a worktree."""

    epoch: int  # of its task: if it grew since, the worktree is still in use
    with_branch: bool = False
    without_ignored: bool = False


class Workspace(Record):
    """A worktree with its branch and ports, as the history stores it. A task has at most one that is not gone."""

    task_id: str
    repo: str  # the directory of the main checkout
    common: str  # the git directory that all worktrees of the repository share
    path: str
    branch: str
    base: str = ""  # as requested
    base_commit: str = ""
    made_branch: bool = False  # fleet created the branch
    made_at: datetime
    ready_at: datetime | None = None  # when setup finished; an agent may start
    first_port: int = 0  # of the leased block; 0: none
    port_count: int = 0
    removing_at: datetime | None = None  # when its removal began, which must then be completed
    removed_at: datetime | None = None
    saved: str = "[]"  # the refs that keep its contents, as JSON
    notes: str = "{}"  # what setup created, its host, and whether it was pushed, as JSON

    @property
    def is_ready(self) -> bool:
        return self.ready_at is not None and self.removing_at is None and not self.is_gone

    @property
    def is_gone(self) -> bool:
        """Return True if it was removed. Its branch, path and ports are then free again."""
        return self.removed_at is not None

    @property
    def ports(self) -> range:
        return range(self.first_port, self.first_port + self.port_count) if self.first_port else range(0)

    @property
    def saved_refs(self) -> list[str]:
        found: list[str] = decode(self.saved)
        return found

    @property
    def host(self) -> str:
        """Return the id of its host; "" if only one host exists."""
        return str(self.made.get("host") or "")

    def lies_on(self, host: str) -> bool:
        return self.host in ("", host)

    @property
    def remote(self) -> str:
        """Return the remote that its branch is pushed to, or ""."""
        return str(self.made.get("remote") or "")

    @property
    def is_mirrored(self) -> bool:
        """Return True if it was created in a mirror of the remote, on a host where no person looks for it."""
        return bool(self.made.get("mirror"))

    @property
    def made(self) -> dict[str, Any]:
        found: dict[str, Any] = decode(self.notes)
        return found


class Collision(Record):
    """Two tasks whose branches collide, and the files in conflict. `task_id` is the task that began first."""

    common: str  # the repository's git directory
    task_id: str
    other_id: str
    tip: str  # the commits that were compared
    other_tip: str
    files: tuple[str, ...]
    seen_at: datetime
    told_at: datetime | None = None  # when the later agent was told

    @property
    def pair(self) -> tuple[str, str]:
        return self.task_id, self.other_id
