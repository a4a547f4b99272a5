"""A queue in an SQL database, whichever: what differs is its connection and a folder of SQL."""

from __future__ import annotations

from fleet.core import clock, dependency
from fleet.core.errors import ClaimLost, TaskExists, TaskNotFound
from fleet.core.filter import Filter, by_lane, claimable_in
from fleet.core.jsontext import encode
from fleet.core.tally import Tally
from fleet.core.task import RESOLVED, Claim
from fleet.core.tokens import hashed, new_token
from fleet.store.edge_rules import check_edge
from fleet.store.sql_rows import caller_from, comment_from, edge_from, edge_values, task_from, task_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime, timedelta
    from typing import Any

    from fleet.core.clock import Clock
    from fleet.core.dependency import Edge
    from fleet.core.filter import Lane
    from fleet.core.task import Caller, Comment, Task, Verdict
    from fleet.store.sql_connection import SqlConnection


class SqlQueue:
    """Tasks in the tables behind a connection."""

    def __init__(self, connection: SqlConnection, now: Clock) -> None:
        self.now = now
        self._db = connection
        self._sql = connection.blocks("queries")

    @property
    def connection(self) -> SqlConnection:
        """What the history shares, so that its writes are part of this queue's transactions."""
        return self._db

    def close(self) -> None:
        self._db.close()

    def confirm(self) -> None:
        pass

    def was_moved(self) -> bool:
        return bool(self._db.rows(self._db.blocks("moving")["is_sealed"])[0][0])

    def atomic(self) -> AbstractContextManager[None]:
        return self._db.writing()

    def snapshot(self) -> AbstractContextManager[None]:
        return self._db.reading()

    def add(self, task: Task) -> None:
        with self._db.writing():
            if self._rows("status_of", id=task.id):
                raise TaskExists(f"task {task.id} exists already")
            self._db.rows(self._sql["insert_task"], task_values(task.replace(is_blocked=False)))
            self._put_labels(task)
            parent, _, number = task.id.rpartition(".")
            if parent and number.isdigit():
                self._rows("keep_child_number", parent=parent, number=int(number))

    def get(self, task_id: str) -> Task:
        for row in self._db.rows(self._sql["tasks"] + " and t.id = :id", {"id": task_id}):
            return task_from(row)
        raise TaskNotFound(task_id)

    def save(self, task: Task) -> None:
        with self._db.writing():
            before = self._status(task.id)
            self._db.rows(self._sql["update_task"], task_values(task))
            self._rows("clear_labels", task=task.id)
            self._put_labels(task)
            if (before in RESOLVED) != (task.status in RESOLVED):
                self._refresh_blocked(self._first("watchers_of", id=task.id))

    def remove(self, task_id: str) -> None:
        with self._db.writing():
            self._status(task_id)
            affected = self._first("watchers_of", id=task_id) + self._first(
                "children_of", ids=self._db.listed([task_id])
            )
            affected += self._first("waiters_on", id=task_id)
            for block in ("delete_edges_to", "delete_comments", "delete_callers", "delete_task"):
                self._rows(block, id=task_id)
            self._refresh_blocked(affected)

    def find(self, where: Filter, *, sort: str = "priority", reverse: bool = False, limit: int = 0) -> list[Task]:
        return [task_from(row) for row in self._select("tasks", where, sort, reverse, limit)]

    def count(self, where: Filter, *, by: str = "") -> dict[str, int]:
        block = f"count_by_{by}" if by else "count"
        conditions, values = self._conditions(where)
        rows = self._db.rows(f"{self._sql[block]} {conditions} {self._sql['grouped']}", values)
        return {str(key): count for key, count in rows} or ({} if by else {"": 0})

    def size(self, prefix: str) -> int:
        return int(self._rows("size", prefix=prefix)[0][0])

    def next_child(self, parent: str) -> int:
        with self._db.writing():
            highest = self._rows("highest_child", parent=parent)[0][0] or 0
            return int(self._rows("next_child", parent=parent, least=highest + 1)[0][0])

    def tallies(self, task_ids: Sequence[str]) -> dict[str, Tally]:
        return {
            key: Tally(dependencies=down, dependents=up, blockers=hard_down, blocked=hard_up, comments=said)
            for key, down, up, hard_down, hard_up, said in self._rows("tallies", ids=self._db.listed(task_ids))
        }

    def link(self, edge: Edge, *, check_cycles: bool = True) -> None:
        with self._db.writing():
            self._status(edge.task)
            if not edge.needs.startswith(dependency.EXTERNAL):
                self._status(edge.needs)
            existing = [edge_from(row) for row in self._rows("edge", task=edge.task, needs=edge.needs)]
            check_edge(edge, existing, reaches=self._reaches if check_cycles else None, ancestors=self.ancestors)
            if not existing:
                self._db.rows(self._sql["insert_edge"], edge_values(edge))
                self._edge_changed(edge)

    def unlink(self, task_id: str, needs: str) -> bool:
        with self._db.writing():
            for edge in [edge_from(row) for row in self._rows("edge", task=task_id, needs=needs)]:
                self._rows("delete_edge", task=task_id, needs=needs)
                self._edge_changed(edge)
                return True
        return False

    def edges(self, task_ids: Iterable[str] | None = None, *, up: bool = False) -> list[Edge]:
        if task_ids is None:
            return [edge_from(row) for row in self._rows("edges_all")]
        return [edge_from(row) for row in self._rows("edges_to" if up else "edges_from", ids=self._db.listed(task_ids))]

    def ancestors(self, task_id: str) -> list[str]:
        return list(dict.fromkeys(self._first("ancestors", id=task_id)))

    def comment(self, comment: Comment) -> None:
        with self._db.writing():
            self._status(comment.task_id)
            values = {**comment.as_dict(), "created_at": clock.to_micros(comment.created_at)}
            self._db.rows(self._sql["insert_comment"], values)

    def comments(self, task_ids: Sequence[str]) -> list[Comment]:
        return [comment_from(row) for row in self._rows("comments", ids=self._db.listed(task_ids))]

    def labels(self) -> dict[str, int]:
        return dict(self._rows("all_labels"))

    def claim(self, owner: str, lanes: Sequence[Lane], *, room: int, ttl: timedelta) -> list[Claim]:
        # Not durable: a claim lost to a power cut is a task that was never started.
        with self._db.writing(durable=False, alone=False):
            found: dict[tuple[int, int, str], tuple[str, str]] = {}
            for lane, limit in self._with_room(lanes, room):
                # A task may fit several lanes: look past those that another lane has taken already.
                fitting = self._first_in(claimable_in(lane), limit + len(found))
                found |= dict.fromkeys([row for row in fitting if row not in found][:limit], lane.seat)
            seats = {row[2]: found[row] for row in sorted(found)[:room]}
            if not seats:
                return []
            now = self.now()
            instants = {"now": clock.to_micros(now), "expires": clock.to_micros(now + ttl)}
            self._rows("claim", owner=owner, ids=self._db.listed(seats), **instants)
            taken = {task.id: task for task in self.find(Filter(ids=tuple(seats)), sort="id")}
            return [claim_of(taken[key]).replace(seat=seat) for key, seat in seats.items()]

    def waiting_coders(self) -> list[str]:
        return self._first("waiting_coders")

    def take(self, task_id: str, actor: str) -> Task:
        with self._db.writing():
            task = self.get(task_id).taken(actor, self.now())
            self.save(task)
            return task

    def renew(self, claims: Iterable[Claim], *, ttl: timedelta) -> list[Claim]:
        with self._db.writing(durable=False, alone=False):
            expires = clock.to_micros(self.now() + ttl)
            held = []
            for claim in claims:
                self._rows("renew", id=claim.task.id, owner=claim.owner, epoch=claim.epoch, expires=expires)
                if self._db.changes():
                    held.append(claim_of(self.get(claim.task.id)))
            return held

    def settle(self, claim: Claim, verdict: Verdict) -> Task:
        with self._db.writing():
            task = verdict.on(self._held(claim), self.now())
            self.save(task)
            return task

    def release(self, claim: Claim) -> Task:
        with self._db.writing():
            task = self._held(claim).freed(self.now())
            self.save(task)
            return task

    def adopt(self, task_id: str, owner: str, *, epoch: int, ttl: timedelta) -> Claim:
        with self._db.writing(durable=False):
            return self._adopt(task_id, owner, epoch, self.now(), ttl)

    def expired(self) -> list[str]:
        return self._first("expired", now=clock.to_micros(self.now()))

    def reap(self, *, spare: Iterable[str] = ()) -> list[Task]:
        with self._db.writing():
            return self._reap(self.now(), spare)

    def request_cancel(self, task_id: str, reason: str) -> Task:
        with self._db.writing():
            task = self.get(task_id).replace(cancel_requested_at=self.now(), cancel_reason=reason)
            self.save(task)
            return task

    def admit(self, claim: Claim, caller: Caller) -> str:
        with self._db.writing(durable=False):
            self._held(claim)
            token = new_token()
            values = {**caller.as_dict(), "repos": encode(caller.repos), "issued_at": clock.to_micros(self.now())}
            self._db.rows(self._sql["insert_caller"], {**values, "token_hash": hashed(token)})
            return token

    def caller(self, token: str) -> Caller | None:
        for row in self._rows("caller", token_hash=hashed(token)):
            return caller_from(row)
        return None

    def caller_in(self, run_id: str) -> Caller | None:
        known = run_id.encode(errors="replace").decode()  # it may come from a command line
        for row in self._rows("caller_in", run=known, task=known.rpartition("/")[0]):
            return caller_from(row)
        return None

    def gave_out(self, token: str) -> bool:
        return bool(self._rows("gave_out", token_hash=hashed(token)))

    def config(self) -> dict[str, str]:
        return dict(self._rows("config"))

    def set_config(self, key: str, value: str | None) -> None:
        with self._db.writing():
            if value is None:
                self._rows("unset_config", key=key)
            else:
                self._rows("set_config", key=key, value=value)

    def _adopt(self, task_id: str, owner: str, epoch: int, now: datetime, ttl: timedelta) -> Claim:
        self.save(self.get(task_id).adopted(owner, epoch, now, now + ttl))
        self._rows("move_callers", id=task_id, before=epoch, after=epoch + 1)
        self._rows("move_runs", id=task_id, before=epoch, after=epoch + 1, owner=owner)
        return claim_of(self.get(task_id))

    def _reap(self, now: datetime, spare: Iterable[str]) -> list[Task]:
        spared = set(spare)
        expired = [key for key in self._first("expired", now=clock.to_micros(now)) if key not in spared]
        reaped = [self.get(key).freed(now) for key in expired]
        for task in reaped:
            self.save(task)
        return reaped

    def _with_room(self, lanes: Sequence[Lane], room: int) -> Iterator[tuple[Lane, int]]:
        """The lanes that may take something, and how much."""
        self._lock_seats(sorted({lane.seat for lane in lanes if lane.limit is not None}))
        for lane in lanes:
            limit = min(lane.room, room)
            if lane.limit is not None:
                limit = min(limit, lane.limit - self._at_work(*lane.seat))
            if limit > 0:
                yield lane, limit

    def _lock_seats(self, seats: list[tuple[str, str]]) -> None:
        """Keep other claims from counting the agents of these accounts until this one is through."""

    def _at_work(self, coder: str, account: str) -> int:
        return int(self._rows("at_work", coder=coder, account=account)[0][0])

    def _first_in(self, where: Filter, limit: int) -> list[tuple[int, int, str]]:
        """The most urgent tasks that fit, each as (priority, created_at, id)."""
        parts = [self._select("task_ids", each, "urgent", False, limit, "taken") for each in by_lane(where)]
        found = [(priority, created_at, key) for rows in parts for key, priority, created_at in rows]
        return found if len(parts) == 1 else sorted(found)

    def _rows(self, block: str, **values: Any) -> list[tuple[Any, ...]]:
        return self._db.rows(self._sql[block], values)

    def _first(self, block: str, **values: Any) -> list[str]:
        return [row[0] for row in self._rows(block, **values)]

    def _status(self, task_id: str) -> str:
        for (status,) in self._rows("status_of", id=task_id):
            return str(status)
        raise TaskNotFound(task_id)

    def _select(
        self, block: str, where: Filter, sort: str, reverse: bool, limit: int, last: str = ""
    ) -> list[tuple[Any, ...]]:
        conditions, values = self._conditions(where)
        order = self._db.blocks("orders")[f"{sort}_reversed" if reverse else sort]
        if limit:
            order, values["limit"] = f"{order} {self._sql['limited']}", limit
        if ":now" in order:
            values["now"] = clock.to_micros(self.now())
        query = self._sql[block].replace("/* index */", self._sql[_index_for(where, sort)])
        return self._db.rows(f"{query} {conditions} {order} {self._sql[last] if last else ''}", values)

    def _conditions(self, where: Filter) -> tuple[str, dict[str, Any]]:
        terms, values, filters = [], {}, self._db.blocks("filters")
        for name, wanted in where.as_dict().items():
            if wanted is None:
                continue
            sql = filters[name]
            terms.append(f"and not ({sql})" if wanted is False else f"and ({sql})")
            if ":" + name in sql:
                values[name] = self._bound(wanted)
        if any(":now" in term for term in terms):
            values["now"] = clock.to_micros(self.now())
        return " ".join(terms), values

    def _bound(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return self._db.listed(value)
        if isinstance(value, dict):
            return encode(value)
        return clock.to_micros(value) if hasattr(value, "tzinfo") else value

    def _put_labels(self, task: Task) -> None:
        for label in set(task.labels):
            self._rows("insert_label", task=task.id, label=label)

    def _refresh_blocked(self, ids: list[str]) -> None:
        while ids:
            changed = self._first("refresh_blocked", ids=self._db.listed(ids))
            ids = self._first("children_of", ids=self._db.listed(changed)) if changed else []

    def _edge_changed(self, edge: Edge) -> None:
        waiting = self._first("waiters_on", id=edge.needs) if edge.type == dependency.PARENT_CHILD else []
        self._refresh_blocked([edge.task, *waiting])

    def _reaches(self, start: str, goal: str) -> bool:
        return bool(self._rows("reaches", start=start, goal=goal))

    def _held(self, claim: Claim) -> Task:
        try:
            task = self.get(claim.task.id)
        except TaskNotFound:  # nobody holds what was deleted
            raise ClaimLost(claim.task.id, claim.epoch) from None
        if (task.claim_owner, task.epoch) != (claim.owner, claim.epoch):
            raise ClaimLost(task.id, claim.epoch)
        return task


def claim_of(task: Task) -> Claim:
    """The claim that a claimed task bears."""
    assert task.claim_expires_at is not None
    return Claim(task=task, owner=task.claim_owner, epoch=task.epoch, expires_at=task.claim_expires_at)


def _index_for(where: Filter, sort: str) -> str:
    """The block that names the index which has the order already, for a planner without statistics."""
    if where.claimable:
        is_lane = where.coder is not None and where.account is not None and where.mode is not None
        return "index_claimable_by_lane" if is_lane else "index_claimable"
    if where.ready:
        return "index_ready"
    if where.repo is not None and (where.branch is not None or where.branches is not None):
        return "index_by_branch"
    return "index_unfinished" if where.unfinished and sort == "priority" else "no_index"
