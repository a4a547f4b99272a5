"""A workspace: the worktree that belongs to a task, for all its runs, until it is removed."""

from __future__ import annotations

from fleet.core.jsontext import decode
from fleet.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

#: The keys of a worktree's notes: it is to go, why it stayed when it was, and where its branch's tip is.
TO_GO, STAYS, BRANCH_KEPT = "to_go", "stays", "branch_kept"
#: How far its work was sent.
SENT, SENT_TO, NOT_SENT = "sent", "sent_to", "not_sent"


class Wish(Record):
    """That a worktree is to go, as somebody said it on another host."""

    epoch: int  # of its task: one that was worked on since has a worktree that is wanted
    with_branch: bool = False
    without_ignored: bool = False


class Workspace(Record):
    """One worktree, its branch and its ports, as the history keeps them. A task has at most one that is not gone."""

    task_id: str
    repo: str  # the main checkout's directory
    common: str  # the git directory that all worktrees of the repository share
    path: str
    branch: str
    base: str = ""  # as it was asked for
    base_commit: str = ""
    made_branch: bool = False  # fleet made it: it was not there before
    made_at: datetime
    ready_at: datetime | None = None  # set up: an agent may start
    first_port: int = 0  # of the leased block; 0: none
    port_count: int = 0
    removing_at: datetime | None = None  # its removal began, and must be brought to an end
    removed_at: datetime | None = None
    saved: str = "[]"  # the refs that keep what was in it: JSON
    notes: str = "{}"  # what setup made, where it lies and whether it was sent on: JSON

    @property
    def is_ready(self) -> bool:
        return self.ready_at is not None and self.removing_at is None and not self.is_gone

    @property
    def is_gone(self) -> bool:
        """Whether it was removed; its branch, path and ports are free again."""
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
        """The id of the host that it lies on; empty where there is only one."""
        return str(self.made.get("host") or "")

    def lies_on(self, host: str) -> bool:
        return self.host in ("", host)

    @property
    def remote(self) -> str:
        """The remote that its branch is sent on to; empty: none."""
        return str(self.made.get("remote") or "")

    @property
    def is_mirrored(self) -> bool:
        """Whether it was made from a mirror of the remote, on a host where nobody looks for it."""
        return bool(self.made.get("mirror"))

    @property
    def made(self) -> dict[str, Any]:
        found: dict[str, Any] = decode(self.notes)
        return found
