"""What a queue in memory knows, and the transactions that take changes of it back."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime
    from types import TracebackType

    from fleet.core.collision import Collision
    from fleet.core.dependency import Edge
    from fleet.core.flow import Result, StageOf, Workflow
    from fleet.core.host import Host
    from fleet.core.receipt import Receipt
    from fleet.core.run import Account, AccountTotal, Message, Question, Quota, Run
    from fleet.core.task import Caller, Comment, Task
    from fleet.core.workspace import Workspace


class State:
    """Everything on record. Only `tasks` is changed in place, the others are replaced: a copy stays what it was."""

    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}
        self.edges: dict[tuple[str, str], Edge] = {}
        self.comments: list[Comment] = []
        self.counters: dict[str, int] = {}
        self.config: dict[str, str] = {}
        self.callers: dict[str, Caller] = {}
        self.runs: dict[str, Run] = {}
        self.questions: dict[str, Question] = {}
        self.messages: dict[str, Message] = {}
        self.accounts: dict[tuple[str, str], Account] = {}
        self.totals: dict[tuple[str, str], AccountTotal] = {}
        self.quotas: dict[tuple[str, str, str], Quota] = {}
        self.workspaces: list[Workspace] = []
        self.receipts: list[Receipt] = []
        self.collisions: list[Collision] = []
        self.workflows: dict[str, Workflow] = {}
        self.stages: dict[str, StageOf] = {}
        self.results: dict[str, Result] = {}
        self.hosts: dict[str, Host] = {}
        self.tails: dict[str, tuple[str, datetime]] = {}
        self.trusted: dict[tuple[str, str], str] = {}

    def copy(self) -> State:
        """The state as it is now, for a transaction to go back to."""
        copy = State()
        copy.__dict__ = {**self.__dict__, "tasks": dict(self.tasks)}
        return copy


class Holder:
    """A state, who may change it, and how deep in transactions they are."""

    def __init__(self) -> None:
        self.state = State()
        self.lock = threading.RLock()
        self.depth = 0


class Transaction:
    """All or nothing; a nested one is part of the outer."""

    def __init__(self, holder: Holder) -> None:
        self._holder = holder

    def __enter__(self) -> None:
        self._holder.lock.acquire()
        self._holder.depth += 1
        if self._holder.depth == 1:
            self._before = self._holder.state.copy()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._holder.depth -= 1
        if kind is not None and self._holder.depth == 0:
            self._holder.state = self._before
        self._holder.lock.release()
