"""Tasks: pieces of work that someone requested, and the rules of their status."""

from __future__ import annotations

from fleet.core.errors import AlreadyClaimed, ClaimLost, NotClaimable
from fleet.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any


class Status:
    """bd's words for the status of a task. They are plain strings because a queue may add its own statuses."""

    OPEN = "open"
    IN_PROGRESS = "in_progress"
    BLOCKED = "blocked"  # needs a person
    DEFERRED = "deferred"
    CLOSED = "closed"
    PINNED = "pinned"
    HOOKED = "hooked"


#: Each built-in status and its category: active can start, wip is in progress, done is finished, frozen is set aside.
CATEGORIES = {
    Status.OPEN: "active",
    Status.IN_PROGRESS: "wip",
    Status.BLOCKED: "wip",
    Status.DEFERRED: "frozen",
    Status.CLOSED: "done",
    Status.PINNED: "frozen",
    Status.HOOKED: "wip",
}

#: A dependency on a task in one of these no longer blocks.
RESOLVED = (Status.CLOSED, Status.PINNED)

TYPES = (
    "bug",
    "feature",
    "task",
    "epic",
    "chore",
    "decision",
    "message",
    "molecule",
    "gate",
    "spike",
    "story",
    "milestone",
    "event",
)

#: Types that hold or route work and are not work themselves.
NOT_WORK = ("merge-request", "gate", "molecule", "message", "agent", "role", "rig")

#: Values of `Task.workspace` and `Task.mode`. Empty means a directory, and headless.
DIRECTORY, WORKTREE = "directory", "worktree"
HEADLESS, INTERACTIVE = "headless", "interactive"

#: The values of `Task.origin` for which a supervisor starts automatically.
CREATE, FANOUT, MULTI, PICK, MERGE = "create", "fanout", "multi", "pick", "merge"
MADE_HERE = (CREATE, FANOUT, MULTI, PICK, MERGE, "workflow", "mcp")

#: The metadata key of a task that records its merge.
MERGED = "merged"
#: Parts of reasons by which other modules recognize a cause.
ALREADY_MERGED = "already merged"
NOT_TRUSTED = "you have not trusted"
TRUST_CHANGED = "since you trusted them"
#: The metadata key of a task that resolves a conflict: the other task and the commit.
RESOLVES = "resolves"

#: fleet's own fields of a task: columns in the database, `fleet.` keys of its metadata in bd's JSON.
SPEC_FIELDS = (
    "cwd",
    "coder",
    "model",
    "account",
    "workspace",
    "repo",
    "remote",
    "base",
    "branch",
    "mode",
    "verify",
    "rules",
    "limits",
    "requires",
    "batch",
    "workflow",
    "stage",
    "origin",
    "made_by",
    "finding",
    "reason",
)

#: How often a task came back, by reason. `fleet retry` resets these counts to zero.
COUNTS = ("failures", "continues", "fresh_starts", "losses", "waits", "disproofs", "fakes")


class Task(Record):
    """A task as the queue stores it. Instants are in UTC; empty text means not set."""

    id: str
    title: str
    description: str = ""
    design: str = ""
    acceptance: str = ""
    notes: str = ""
    spec_id: str = ""
    status: str = Status.OPEN
    priority: int = 2  # from 0 (urgent) to 4 (backlog)
    type: str = "task"
    assignee: str = ""
    owner: str = ""  # the e-mail address of its creator
    estimated_minutes: int | None = None
    created_at: datetime
    created_by: str = ""
    updated_at: datetime
    started_at: datetime | None = None
    closed_at: datetime | None = None
    close_reason: str = ""
    closed_by_session: str = ""
    due_at: datetime | None = None
    defer_until: datetime | None = None  # not ready before; retries use it too
    external_ref: str = ""
    source_system: str = ""
    ephemeral: bool = False
    no_history: bool = False
    pinned: bool = False
    is_template: bool = False
    metadata: dict[str, Any] = {}  # noqa: RUF012 - never changed in place: records are frozen
    extra: dict[str, Any] = {}  # noqa: RUF012 - bd's rarer fields, kept so that nothing is lost in a round trip
    labels: tuple[str, ...] = ()
    is_blocked: bool = False  # updated by the queue in the transaction that changes it

    cwd: str = ""
    coder: str = ""
    model: str = ""
    account: str = ""
    workspace: str = ""  # directory or worktree
    repo: str = ""
    remote: str = ""  # where another host can fetch the repository
    base: str = ""
    branch: str = ""
    mode: str = ""  # headless or interactive
    verify: str = ""
    rules: str = ""  # rules for its work: JSON, see `core.rules`
    limits: str = ""
    requires: str = ""  # what a host must offer: JSON, see `core.host`
    batch: str = ""
    workflow: str = ""
    stage: str = ""
    origin: str = ""  # the command that created it; "" for plain `bd create`
    made_by: str = ""  # the task of the run that created it
    path: str = ""  # PATH of its creator
    finding: str = ""  # the conclusion of its last receipt
    reason: str = ""  # why it has its status

    claim_owner: str = ""
    epoch: int = 0  # grows with each claim; each write about the claim must name it
    claim_expires_at: datetime | None = None  # None: a manual claim, held until given back
    run_id: str = ""
    cancel_requested_at: datetime | None = None
    cancel_reason: str = ""
    handed_in_at: datetime | None = None
    hand_in_reason: str = ""
    # How often it came back, by reason. Each count has its own limit.
    failures: int = 0
    continues: int = 0  # its agent stopped before it had finished
    fresh_starts: int = 0  # its context was full
    losses: int = 0  # its agent vanished
    waits: int = 0  # for the limits of an account
    disproofs: int = 0  # its work did not pass the verify command
    fakes: int = 0  # its agent claimed work that it had not done

    @property
    def is_claimed(self) -> bool:
        """Return True if a supervisor or a person holds it."""
        return bool(self.claim_owner)

    @property
    def is_supervised(self) -> bool:
        """Return True if a supervisor holds it. Only such a claim expires."""
        return self.claim_expires_at is not None

    @property
    def travels(self) -> bool:
        """Return True if any host that reaches its remote may work on it."""
        return bool(self.remote) and self.workspace == WORKTREE

    @property
    def is_at_rest(self) -> bool:
        """Return True if it is finished or needs a person, and no supervisor holds it.

        An agent may set the status before its run ends.
        """
        return self.status in (*RESOLVED, Status.BLOCKED) and not self.is_supervised

    def can_start(self, now: datetime) -> bool:
        """Return True if its status lets it start: open, or deferred until a time that has come."""
        if self.status == Status.DEFERRED:
            return self.defer_until is not None and self.defer_until <= now
        return self.status == Status.OPEN

    def moved(self, status: str, now: datetime) -> Task:
        """Return this task in another status, with the resulting instants."""
        if status == self.status:
            return self
        changes: dict[str, Any] = {"status": status}
        if status == Status.IN_PROGRESS and self.started_at is None:
            changes["started_at"] = now
        if status == Status.CLOSED:
            changes["closed_at"] = now
        elif self.status == Status.CLOSED:
            changes |= {"closed_at": None, "close_reason": "", "closed_by_session": "", "epoch": self.epoch + 1}
        if status != Status.IN_PROGRESS and not self.is_supervised:
            changes["claim_owner"] = ""
        return self.replace(**changes)

    def closed(self, reason: str, now: datetime, session: str = "") -> Task:
        """Return this task closed for the given reason. Closing it twice changes nothing."""
        if self.status == Status.CLOSED:
            return self
        return self.moved(Status.CLOSED, now).replace(close_reason=reason, closed_by_session=session, updated_at=now)

    def reopened(self, now: datetime) -> Task:
        """Return this task open again.

        If it was closed, its epoch grows, so that earlier holders can no longer write about it.
        """
        return self.moved(Status.OPEN, now).replace(defer_until=None, handed_in_at=None, updated_at=now)

    def taken(self, actor: str, now: datetime) -> Task:
        """Return this task held by a person or an agent until they give it back. Taking it twice changes nothing.

        Raises AlreadyClaimed, NotClaimable.
        """
        if self.status == Status.IN_PROGRESS and self.assignee == actor:
            return self
        if self.assignee not in ("", actor):
            raise AlreadyClaimed(f"issue already claimed by {self.assignee}")
        if self.is_claimed and self.claim_owner != actor:
            raise AlreadyClaimed(f"issue already claimed by {self.claim_owner}")
        if not self.can_start(now):
            raise NotClaimable(f"issue not claimable: status {self.status}")
        return self.moved(Status.IN_PROGRESS, now).replace(
            assignee=actor, claim_owner=actor, epoch=self.epoch + 1, updated_at=now
        )

    def claimed(self, owner: str, now: datetime, expires_at: datetime) -> Task:
        """Return this task held by a supervisor until a moment, without leftovers of an earlier run."""
        return self.moved(Status.IN_PROGRESS, now).replace(
            claim_owner=owner,
            assignee=owner,
            epoch=self.epoch + 1,
            claim_expires_at=expires_at,
            updated_at=now,
            defer_until=None,
            cancel_requested_at=None,
            cancel_reason="",
            handed_in_at=None,
            hand_in_reason="",
            run_id="",
        )

    def adopted(self, owner: str, epoch: int, now: datetime, expires_at: datetime) -> Task:
        """Return this task with its claim continued by a supervisor.

        The claim is its own after a restart, or another owner's that has expired. Raises ClaimLost.
        """
        expired = self.claim_expires_at is not None and self.claim_expires_at < now
        if self.epoch != epoch or not (self.claim_owner == owner or (self.claim_owner and expired)):
            raise ClaimLost(self.id, epoch)
        assignee = owner if self.assignee == self.claim_owner else self.assignee
        return self.replace(claim_owner=owner, assignee=assignee, epoch=epoch + 1, claim_expires_at=expires_at)

    def handed_in(self, reason: str, now: datetime) -> Task:
        """Return this task with its agent's claim that it is done. The status waits for the receipt."""
        return self.replace(handed_in_at=now, hand_in_reason=reason, updated_at=now)

    def freed(self, now: datetime, *, status: str = "") -> Task:
        """Return this task without its claim, in the status of the verdict or else back in the queue.

        A closed task stays closed. Without a verdict, a status that was set meanwhile stays too: an agent that asked a
        question is still waiting.
        """
        unchanged = self.status == Status.CLOSED or (not status and self.status != Status.IN_PROGRESS)
        target = self.status if unchanged else status or Status.OPEN
        return self.moved(target, now).replace(
            claim_owner="", claim_expires_at=None, assignee="", run_id="", cancel_requested_at=None, updated_at=now
        )


class Verdict(Record):
    """Where a task goes after a run."""

    status: str
    reason: str = ""
    not_before: datetime | None = None
    finding: str = ""
    failures: int = 0  # how much to add to each count
    continues: int = 0
    fresh_starts: int = 0
    losses: int = 0
    waits: int = 0
    disproofs: int = 0
    fakes: int = 0

    def on(self, task: Task, now: datetime) -> Task:
        """Return the task after this verdict, without its claim. A task that was closed meanwhile stays closed."""
        freed = task.freed(now, status=self.status)
        return freed.replace(
            reason=self.reason,
            close_reason=(self.reason or "Closed")
            if task.status != Status.CLOSED == freed.status
            else freed.close_reason,
            defer_until=self.not_before,
            finding=self.finding or task.finding,
            **{name: getattr(task, name) + getattr(self, name) for name in COUNTS},
        )


class Claim(Record):
    """One host's exclusive, expiring hold on a task."""

    task: Task
    owner: str
    epoch: int
    expires_at: datetime
    seat: tuple[str, str] = ("", "")  # the coder and account of its lane, if the lane names them

    def account_of(self, coder: str) -> str:
        """Return the account of this coder that it was taken for; "" for any."""
        return self.seat[1] if self.seat[0] == coder else ""


class Comment(Record):
    """A comment on a task."""

    id: str
    task_id: str
    author: str
    text: str
    created_at: datetime


class Caller(Record):
    """A live run, identified by its token: what it may access and how far it may go."""

    task_id: str
    run_id: str
    epoch: int
    depth: int = 0
    budget_usd: float | None = None
    repos: tuple[str, ...] = ()

    @classmethod
    def over(cls) -> Caller:
        """Return the caller for a token that is no longer valid: an agent whose run has ended, without a task."""
        return cls(task_id="(a finished run)", run_id="(a finished run)", epoch=0)

    @classmethod
    def unknown(cls) -> Caller:
        """Return the caller for an agent whose run is not known. It has no more rights than after its run."""
        return cls(task_id="(an unknown run)", run_id="(an unknown run)", epoch=0)

    @property
    def is_live(self) -> bool:
        return self.epoch > 0

    @property
    def hint(self) -> str:
        over = self == Caller.over()
        return (
            "stop: the run has finished"
            if over
            else "keep FLEET_RUN_TOKEN in the environment of programs that you start"
        )
