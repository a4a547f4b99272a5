"""The ports of the store: what each promises, whatever keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime, timedelta

    from fleet.core.collision import Collision
    from fleet.core.dependency import Edge
    from fleet.core.filter import Filter, Lane
    from fleet.core.flow import Result, StageOf, Workflow
    from fleet.core.glance import Glance
    from fleet.core.health import Vital
    from fleet.core.host import Host
    from fleet.core.receipt import FindingCount, Receipt
    from fleet.core.relocation import Relocation
    from fleet.core.run import Account, AccountTotal, Message, Question, Quota, Run
    from fleet.core.tally import Tally
    from fleet.core.task import Caller, Claim, Comment, Task, Verdict
    from fleet.core.workspace import Workspace


class Tasks(Protocol):
    """Tasks. What is blocked is up to date in the transaction that changes it."""

    def add(self, task: Task) -> None:
        """Put a new task in. Raises TaskExists."""

    def get(self, task_id: str) -> Task:
        """The task with exactly this id. Raises TaskNotFound."""

    def save(self, task: Task) -> None:
        """Keep a changed task. Call it inside `atomic`, with a task read there. Raises TaskNotFound."""

    def remove(self, task_id: str) -> None:
        """Take a task out for good, with its comments and every edge from or to it. Raises TaskNotFound."""

    def find(self, where: Filter, *, sort: str = "priority", reverse: bool = False, limit: int = 0) -> list[Task]:
        """The tasks that fit, in order; a limit of 0 is none."""

    def count(self, where: Filter, *, by: str = "") -> dict[str, int]:
        """How many tasks fit, under "" or per status, priority, type, assignee or label."""

    def size(self, prefix: str) -> int:
        """How many tasks with that prefix are nobody's numbered child."""

    def next_child(self, parent: str) -> int:
        """A number no child of this task has had before."""

    def tallies(self, task_ids: Sequence[str]) -> Mapping[str, Tally]:
        """How many dependencies, dependents and comments each has."""

    def labels(self) -> dict[str, int]:
        """Every label in use and how many tasks have it."""


class Edges(Protocol):
    """Dependencies: which task needs, or belongs to, which."""

    def add(self, edge: Edge, *, check_cycles: bool = True) -> None:
        """Add an edge. Raises TaskNotFound, DependencyRefused, CycleRefused."""

    def remove(self, task_id: str, needs: str) -> bool:
        """Remove the edge between two tasks; whether there was one."""

    def find(self, task_ids: Iterable[str] | None = None, *, up: bool = False) -> list[Edge]:
        """The edges from these tasks, or with `up` the edges to them; all edges when none are named."""

    def ancestors(self, task_id: str) -> list[str]:
        """What the task belongs to, nearest first."""


class Comments(Protocol):
    """What was said of tasks."""

    def add(self, comment: Comment) -> None:
        """Keep a comment. Raises TaskNotFound."""

    def find(self, task_ids: Sequence[str]) -> list[Comment]:
        """The comments on these tasks, oldest first for each."""


class Claims(Protocol):
    """Who works on a task, and until when."""

    def acquire(self, owner: str, lanes: Sequence[Lane], *, room: int, ttl: timedelta) -> list[Claim]:
        """Take ready tasks that fit these lanes, at most `room` in all, for this owner alone, each with a new epoch."""

    def waiting_coders(self) -> list[str]:
        """The coders that claimable tasks name; "" stands for those that name none."""

    def take(self, task_id: str, actor: str) -> Task:
        """Claim one task by hand: without expiry, never reaped. Raises AlreadyClaimed, NotClaimable."""

    def renew(self, claims: Iterable[Claim], *, ttl: timedelta) -> list[Claim]:
        """Put off the expiry of those still held; the answer has their tasks as they are now, in the same order."""

    def settle(self, claim: Claim, verdict: Verdict) -> Task:
        """Record where a task goes next. Raises ClaimLost when the epoch is no longer ours, or the task is gone."""

    def release(self, claim: Claim) -> Task:
        """Give a task back as if it had not been claimed. Raises ClaimLost."""

    def adopt(self, task_id: str, owner: str, *, epoch: int, ttl: timedelta) -> Claim:
        """Claim again what this owner holds, after a restart, or what another let expire. Raises ClaimLost.

        It is the next epoch of the same run, whose token goes on working.
        """

    def expired(self) -> list[str]:
        """The tasks that `reap` would give back; most often there are none, and looking costs next to nothing."""

    def reap(self, *, spare: Iterable[str] = ()) -> list[Task]:
        """Give back every task whose claim has expired, but for those known to be alive."""

    def request_cancel(self, task_id: str, reason: str) -> Task:
        """Ask whoever holds the task to stop."""


class Tokens(Protocol):
    """What tells the calls of a run from those of others."""

    def issue(self, claim: Claim, caller: Caller) -> str:
        """A token for the run of this claim; it is worth nothing once the claim is gone. Raises ClaimLost."""

    def caller(self, token: str) -> Caller | None:
        """The live run that this token was given to."""

    def caller_in(self, run_id: str) -> Caller | None:
        """The live run of this id: for whoever knows it otherwise than by the caller's word."""

    def was_issued(self, token: str) -> bool:
        """Whether this token was ever given to a run here, be it worth something still or not."""


class Config(Protocol):
    """bd's settings of this queue."""

    def all(self) -> dict[str, str]:
        """All of bd's settings that were made."""

    def set(self, key: str, value: str | None) -> None:
        """Make or, with None, forget a setting."""


class Runs(Protocol):
    """Every attempt at a task.

    A run bears the owner and epoch of its claim. `Claims.adopt` raises both epochs at once, so that an adopted run goes
    on under its id and an earlier holder can no longer write about it; read the run again, or take the claim's epoch.
    """

    def begin(self, claim: Claim, run: Run) -> Run:
        """Record the next run of a claimed task, and name it in the task. Raises ClaimLost.

        It is numbered here, but for one with a higher number, which was begun before and is put on record again.
        A run of that task that nobody ended is ended as lost: at most one is live. Its account is used from now on.
        """

    def fold(self, claim: Claim, run: Run) -> None:
        """Keep what was folded from a live run's output, with the offsets it was read up to. Raises ClaimLost."""

    def fold_all(self, pairs: Sequence[tuple[Claim, Run]]) -> list[str]:
        """Fold many runs at once; the ids of those that were not kept, since their claim is lost or they ended."""

    def end(self, run: Run) -> None:
        """Record how a run ended, now unless it says when, and add what it took to its account's totals.

        A run ends once: a second end changes nothing.
        It is judged by the run's own epoch, for the claim is given back in the same transaction, or was taken away.
        Raises ClaimLost when the run was adopted since, or never begun.
        """

    def get(self, run_id: str) -> Run | None:
        """One run, if there is one."""

    def of_task(self, task_id: str) -> list[Run]:
        """Every attempt at a task, oldest first."""

    def last(self, task_ids: Sequence[str]) -> dict[str, Run]:
        """The newest run of each of these tasks that has one, asked for at once."""

    def live(self, owner: str | None = None) -> list[Run]:
        """The runs that have not ended, of one owner or of all, oldest first."""

    def ended(self, *, before: datetime, after: tuple[datetime, str] | None = None, limit: int) -> list[Run]:
        """A part of the runs that ended before a moment, earliest end first, then by id.

        `after` is the end and the id of the last run of the part before: the work grows with the part, not the history.
        """

    def ended_last(self, *, after: datetime, limit: int) -> list[Run]:
        """The newest runs that ended after a moment, latest end first."""


class Questions(Protocol):
    """Questions of agents, and their answers."""

    def ask(self, question: Question) -> None:
        """Record a question; the same text asked again by the same task while open is one question."""

    def answer(self, question_id: str, text: str | None, *, by: str) -> Question:
        """Record an answer, or with None that there will be none: it is withdrawn. The first wins: a second raises
        AlreadyAnswered. Raises QuestionNotFound."""

    def get(self, question_id: str) -> Question:
        """One question. Raises QuestionNotFound."""

    def find(self, *, task_id: str | None = None, unanswered: bool = False) -> list[Question]:
        """Questions, oldest first."""


class Accounts(Protocol):
    """Accounts: whether they may be used, what runs took of them, what is left of their quotas."""

    def all(self) -> list[Account]:
        """Every account that something is known about."""

    def park(self, coder: str, name: str, *, until: datetime | None, reason: str) -> None:
        """Keep an account from being used until a moment; None takes that back. The last word counts."""

    def note_strikes(self, coder: str, name: str, *, strikes: int) -> None:
        """Keep how often in a row an account met too many requests at once. The last word counts."""

    def totals(self) -> list[AccountTotal]:
        """What the ended runs of each account took, kept as sums: the history is not read. The sums have a bound."""

    def note_quotas(self, seen: Sequence[Quota]) -> None:
        """Keep what was seen of quotas; what a later word leaves out stays, and an earlier word changes nothing."""

    def quotas(self) -> list[Quota]:
        """The windows of every account's quota as last seen, by coder, account and window."""


class Messages(Protocol):
    """Messages to agents, and how far each has come."""

    def add(self, message: Message) -> None:
        """Keep a message to a task's agent; one whose id is there already changes nothing."""

    def find(self, task_id: str | None = None, *, state: str | None = None) -> list[Message]:
        """Messages of one task or all, in one state or any, oldest first."""

    def mark(self, message_id: str, state: str, at: datetime, run: str) -> bool:
        """Note how far a message has come, and with which run; whether it moved.

        It moves only forward, and delivered and carried are ends. One that is not there does not move.
        """


class Receipts(Protocol):
    """What was seen of each run."""

    def keep(self, receipt: Receipt) -> Receipt:
        """Keep what was seen of a run, behind the last receipt of its owner; of one run the first counts."""

    def get(self, run_id: str) -> Receipt | None:
        """The receipt of a run, if it has one."""

    def of_task(self, task_id: str) -> list[Receipt]:
        """The receipts of a task's runs, oldest first."""

    def chain(self, owner: str) -> list[Receipt]:
        """All receipts of one owner, oldest first."""

    def finding_counts(self, *, since: datetime | None = None) -> list[FindingCount]:
        """What the runs that ended since then came to, for each coder, model and finding."""


class Collisions(Protocol):
    """Which live branches git could not merge with each other."""

    def find(self, *, common: str | None = None) -> list[Collision]:
        """The branches that collide, of one repository's git directory or any, as last seen; longest known first."""

    def keep(self, common: str, seen: Sequence[Collision]) -> None:
        """Keep which branches of a repository collide now, in place of what was known; known pairs keep their times."""

    def mark_told(self, collision: Collision, at: datetime) -> bool:
        """Note that the later agent was told; whether it had not been."""


class Workflows(Protocol):
    """Workflows with their stages."""

    def add(self, workflow: Workflow, stages: Sequence[StageOf]) -> None:
        """Keep a new workflow, and which task is which of its stages."""

    def get(self, workflow_id: str) -> Workflow:
        """One workflow. Raises WorkflowNotFound."""

    def task_prompt(self, workflow_id: str) -> str:
        """What one workflow is about, without its plan, which may be large. Raises WorkflowNotFound."""

    def newest(self, *, limit: int) -> list[Workflow]:
        """The newest workflows, newest first."""

    def stop(self, workflow_id: str, reason: str, at: datetime) -> bool:
        """Note that a workflow was stopped; whether it had not been. Raises WorkflowNotFound."""

    def mark_cleaned(self, workflow_id: str, at: datetime) -> bool:
        """Note that its worktrees were removed; whether they had not been. Raises WorkflowNotFound."""

    def stages(self, workflow_id: str) -> list[StageOf]:
        """The stages of a workflow in the order of its plan."""

    def stage_of(self, task_id: str) -> StageOf | None:
        """Which stage a task is, if it is one."""


class Results(Protocol):
    """What tasks handed on."""

    def keep(self, result: Result) -> None:
        """Keep what a task handed on; the last word counts."""

    def find(self, task_ids: Iterable[str]) -> dict[str, Result]:
        """What these tasks handed on, by their ids; those that did not are left out."""


class Hosts(Protocol):
    """The hosts that share the store."""

    def glance(self, host_id: str, key: str) -> Glance:
        """What this host goes by when it looks for work, with one of the queue's settings: asked for at once."""

    def keep(self, host: Host) -> Host:
        """Keep what a host tells of itself; the answer has since when it is drained, which only `drain_host` says."""

    def all(self) -> list[Host]:
        """Every host that was seen and not forgotten, by name."""

    def drain(self, host_id: str, at: datetime | None) -> bool:
        """Keep a host from taking work, or with None let it again; whether it is known."""

    def forget(self, host_id: str) -> bool:
        """Take a host off the record; whether it was there."""


class Tails(Protocol):
    """The last events of runs, for when their host cannot be asked."""

    def keep(self, run_id: str, text: str, at: datetime) -> None:
        """Keep the last events of a run, for when its host cannot be asked; the last word counts."""

    def get(self, run_id: str) -> tuple[str, datetime] | None:
        """The last events that were kept of a run, and when."""

    def forget(self, before: datetime) -> int:
        """Let go of what was kept of runs before a moment; of how many."""


class Workspaces(Protocol):
    """Which task has which worktree, branch and ports."""

    def lease(self, workspace: Workspace, *, ports: Callable[[frozenset[int]], int] | None = None) -> Workspace:
        """Keep a task's workspace, or give back the one it has: same path and branch until that is gone.

        `ports` is given every leased port and answers with the first of a free block of `port_count`, or 0 for none;
        without it the workspace's own `first_port` is taken.
        Raises BranchTaken when another task has the branch or the path, BadInput for a name that is not UTF-8, and
        IllegalMove while the task's workspace is being removed, or when a port is not free.
        """

    def get(self, task_id: str) -> Workspace | None:
        """The newest workspace of a task, gone or not."""

    def find(self, *, common: str | None = None, gone: bool = False) -> list[Workspace]:
        """The workspaces that are not gone, or all, of one repository's git directory or any; earliest lease first."""

    def of_task(self, task_id: str) -> list[Workspace]:
        """Every workspace that a task ever had, earliest lease first: the work does not grow with those of others."""

    def save(self, workspace: Workspace) -> None:
        """Keep what became of a leased workspace: its base, whether it is ready, what was saved of it, its notes.

        Where it lies and how far its removal is stay as they are. Raises WorkspaceNotFound when it is gone, even if
        the task has another by now.
        """

    def begin_removal(self, task_id: str) -> Workspace:
        """Say that a workspace is being removed, so that no run begins in it; saying it again goes on with it.

        Raises WorkspaceNotFound, and IllegalMove while a run of its task lives or a supervisor holds the task.
        """

    def stop_removal(self, task_id: str) -> Workspace:
        """Say that it is not removed after all: it could not be, and stays as it was. Raises WorkspaceNotFound."""

    def end_removal(self, task_id: str, saved: str) -> Workspace:
        """Say that it is removed, with the refs (a JSON list) that keep what was in it; a second end changes nothing.

        Branch, path and ports are free again. Raises WorkspaceNotFound, and IllegalMove for a removal that never began.
        """

    def leave(self, task_id: str) -> Workspace:
        """Say that a workspace stays behind on a host that does not go on with its task, whoever holds that by now.

        Branch, path and ports are free again; one that is gone stays as it is. Raises WorkspaceNotFound.
        """

    def relocate(self, moved: Relocation) -> None:
        """Have the runs and workspaces of a home that was moved say where they are now, and whose, all at once."""


class Trust(Protocol):
    """What somebody declared to be all right."""

    def set(self, kind: str, key: str, value: str, by: str) -> None:
        """Put on record what somebody declared to be all right. Raises BadInput for text that is not UTF-8."""

    def get(self, kind: str, key: str) -> str | None:
        """What was last declared to be all right under this key."""


class Store(Protocol):
    """Where tasks and their history live. Safe to share between processes, and between supervisors.

    Every writing method of a port is one transaction, or part of the one that `atomic` opened.
    """

    is_shared: bool
    """Whether hosts other than this one may use it."""

    @property
    def tasks(self) -> Tasks: ...

    @property
    def edges(self) -> Edges: ...

    @property
    def comments(self) -> Comments: ...

    @property
    def claims(self) -> Claims: ...

    @property
    def tokens(self) -> Tokens: ...

    @property
    def config(self) -> Config: ...

    @property
    def runs(self) -> Runs: ...

    @property
    def questions(self) -> Questions: ...

    @property
    def accounts(self) -> Accounts: ...

    @property
    def messages(self) -> Messages: ...

    @property
    def receipts(self) -> Receipts: ...

    @property
    def collisions(self) -> Collisions: ...

    @property
    def workflows(self) -> Workflows: ...

    @property
    def results(self) -> Results: ...

    @property
    def hosts(self) -> Hosts: ...

    @property
    def tails(self) -> Tails: ...

    @property
    def workspaces(self) -> Workspaces: ...

    @property
    def trust(self) -> Trust: ...

    def close(self) -> None:
        """Let go of the database; safe to call twice."""

    def listening(self, call: Callable[[], None]) -> AbstractContextManager[None]:
        """While inside, `call` is called from another thread when somebody wrote something: a hint, and no promise."""

    def health(self) -> list[Vital]:
        """What this queue says of its own health; reads all of it, never raises, and changes nothing."""

    def confirm(self) -> None:
        """Raise DatabaseReplaced if commands that start now would work on another database than this one."""

    def was_moved(self) -> bool:
        """Whether all of it was moved to another queue: what is here can be read, and each write raises QueueMoved."""

    def now(self) -> datetime:
        """The queue's clock, the only one that claims are judged by."""

    def atomic(self) -> AbstractContextManager[None]:
        """All of the writes inside, or none; nested ones join. Reads inside see them."""

    def snapshot(self) -> AbstractContextManager[None]:
        """Reads inside see one moment."""
