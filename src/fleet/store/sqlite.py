"""The embedded queue: SQLite in write-ahead mode, shared by every process of one host."""

from __future__ import annotations

from fleet.core import clock, dependency
from fleet.core.errors import ClaimLost, TaskExists, TaskNotFound
from fleet.core.filter import by_lane, claimable_in
from fleet.core.jsontext import encode
from fleet.core.tally import Tally
from fleet.core.task import RESOLVED, Claim
from fleet.core.tokens import hashed, new_token
from fleet.store import named_sql
from fleet.store.edge_rules import check_edge
from fleet.store.sqlite_connection import Connection
from fleet.store.sqlite_rows import caller_from, comment_from, edge_from, edge_values, task_from, task_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import timedelta
    from typing import Any

    from fleet.core.clock import Clock
    from fleet.core.dependency import Edge
    from fleet.core.filter import Filter, Lane
    from fleet.core.health import Vital
    from fleet.core.task import Caller, Comment, Task, Verdict
    from fleet.store.sqlite_connection import Transaction

_SQL = named_sql.load("sqlite", "queries")


class SqliteQueue:
    """Tasks in one SQLite file. The clock is the host's: there is only one host."""

    def __init__(self, path: str, *, make: bool = False, migrate: bool = False, now: Clock = clock.now) -> None:
        self.now = now
        self._db = Connection(path, make=make, migrate=migrate)

    @property
    def connection(self) -> Connection:
        """What the history shares, so that its writes are part of this queue's transactions."""
        return self._db

    def close(self) -> None:
        self._db.close()

    def health(self) -> list[Vital]:
        from fleet.store.sqlite_health import health  # for `fleet doctor` alone

        return health(self._db)

    def atomic(self) -> Transaction:
        return self._db.writing()

    def snapshot(self) -> Transaction:
        return self._db.reading()

    def add(self, task: Task) -> None:
        with self._db.writing():
            if self._rows("status_of", id=task.id):
                raise TaskExists(f"task {task.id} exists already")
            self._db.rows(_SQL["insert_task"], task_values(task.replace(is_blocked=False)))
            self._put_labels(task)
            parent, _, number = task.id.rpartition(".")
            if parent and number.isdigit():
                self._rows("keep_child_number", parent=parent, number=int(number))

    def get(self, task_id: str) -> Task:
        for row in self._db.rows(_SQL["tasks"] + " and t.id = :id", {"id": task_id}):
            return task_from(row)
        raise TaskNotFound(task_id)

    def save(self, task: Task) -> None:
        with self._db.writing():
            before = self._status(task.id)
            self._db.rows(_SQL["update_task"], task_values(task))
            self._rows("clear_labels", task=task.id)
            self._put_labels(task)
            if (before in RESOLVED) != (task.status in RESOLVED):
                self._refresh_blocked(self._first("watchers_of", id=task.id))

    def remove(self, task_id: str) -> None:
        with self._db.writing():
            self._status(task_id)
            affected = self._first("watchers_of", id=task_id) + self._first("children_of", ids=encode([task_id]))
            affected += self._first("waiters_on", id=task_id)
            for block in ("delete_edges_to", "delete_comments", "delete_callers", "delete_task"):
                self._rows(block, id=task_id)
            self._refresh_blocked(affected)

    def find(self, where: Filter, *, sort: str = "priority", reverse: bool = False, limit: int = 0) -> list[Task]:
        return [task_from(row) for row in self._select("tasks", where, sort, reverse, limit)]

    def count(self, where: Filter, *, by: str = "") -> dict[str, int]:
        block = f"count_by_{by}" if by else "count"
        conditions, values = self._conditions(where)
        rows = self._db.rows(f"{_SQL[block]} {conditions} {_SQL['grouped']}", values)
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
            for key, down, up, hard_down, hard_up, said in self._rows("tallies", ids=encode(task_ids))
        }

    def link(self, edge: Edge, *, check_cycles: bool = True) -> None:
        with self._db.writing():
            self._status(edge.task)
            if not edge.needs.startswith(dependency.EXTERNAL):
                self._status(edge.needs)
            existing = [edge_from(row) for row in self._rows("edge", task=edge.task, needs=edge.needs)]
            check_edge(edge, existing, reaches=self._reaches if check_cycles else None, ancestors=self.ancestors)
            if not existing:
                self._db.rows(_SQL["insert_edge"], edge_values(edge))
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
        return [edge_from(row) for row in self._rows("edges_to" if up else "edges_from", ids=encode(list(task_ids)))]

    def ancestors(self, task_id: str) -> list[str]:
        return list(dict.fromkeys(self._first("ancestors", id=task_id)))

    def comment(self, comment: Comment) -> None:
        with self._db.writing():
            self._status(comment.task_id)
            values = {**comment.as_dict(), "created_at": clock.to_micros(comment.created_at)}
            self._db.rows(_SQL["insert_comment"], values)

    def comments(self, task_ids: Sequence[str]) -> list[Comment]:
        return [comment_from(row) for row in self._rows("comments", ids=encode(task_ids))]

    def labels(self) -> dict[str, int]:
        return dict(self._rows("all_labels"))

    def claim(self, owner: str, lanes: Sequence[Lane], *, room: int, ttl: timedelta) -> list[Claim]:
        wanted = [(claimable_in(lane), min(lane.room, room)) for lane in lanes if min(lane.room, room) > 0]
        # Not durable: a claim lost to a power cut is a task that was never started.
        with self._db.writing(durable=False):
            found: set[tuple[int, int, str]] = set()
            for where, limit in wanted:
                # A task may fit several lanes: look past those that another lane has taken already.
                found.update([row for row in self._first_in(where, limit + len(found)) if row not in found][:limit])
            ids = [key for _, _, key in sorted(found)[:room]]
            if not ids:
                return []
            now = self.now()
            instants = {"now": clock.to_micros(now), "expires": clock.to_micros(now + ttl)}
            self._rows("claim", owner=owner, ids=encode(ids), **instants)
            return [self._claim_of(self.get(key)) for key in ids]

    def waiting_coders(self) -> list[str]:
        return self._first("waiting_coders")

    def take(self, task_id: str, actor: str) -> Task:
        with self._db.writing():
            task = self.get(task_id).taken(actor, self.now())
            self.save(task)
            return task

    def renew(self, claims: Iterable[Claim], *, ttl: timedelta) -> list[Claim]:
        with self._db.writing(durable=False):
            expires = clock.to_micros(self.now() + ttl)
            held = []
            for claim in claims:
                self._rows("renew", id=claim.task.id, owner=claim.owner, epoch=claim.epoch, expires=expires)
                if self._db.changes():
                    held.append(self._claim_of(self.get(claim.task.id)))
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
            now = self.now()
            self.save(self.get(task_id).adopted(owner, epoch, now, now + ttl))
            self._rows("move_callers", id=task_id, before=epoch, after=epoch + 1)
            self._rows("move_runs", id=task_id, before=epoch, after=epoch + 1, owner=owner)
            return self._claim_of(self.get(task_id))

    def reap(self, *, spare: Iterable[str] = ()) -> list[Task]:
        spared = set(spare)
        with self._db.writing():
            now = self.now()
            expired = [key for key in self._first("expired", now=clock.to_micros(now)) if key not in spared]
            reaped = [self.get(key).freed(now) for key in expired]
            for task in reaped:
                self.save(task)
            return reaped

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
            self._db.rows(_SQL["insert_caller"], {**values, "token_hash": hashed(token)})
            return token

    def caller(self, token: str) -> Caller | None:
        for row in self._rows("caller", token_hash=hashed(token)):
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

    def _first_in(self, where: Filter, limit: int) -> list[tuple[int, int, str]]:
        """The most urgent tasks that fit, each as (priority, created_at, id)."""
        parts = [self._select("task_ids", each, "urgent", False, limit) for each in by_lane(where)]
        found = [(priority, created_at, key) for rows in parts for key, priority, created_at in rows]
        return found if len(parts) == 1 else sorted(found)

    def _rows(self, block: str, **values: Any) -> list[tuple[Any, ...]]:
        return self._db.rows(_SQL[block], values)

    def _first(self, block: str, **values: Any) -> list[str]:
        return [row[0] for row in self._rows(block, **values)]

    def _status(self, task_id: str) -> str:
        for (status,) in self._rows("status_of", id=task_id):
            return str(status)
        raise TaskNotFound(task_id)

    def _select(self, block: str, where: Filter, sort: str, reverse: bool, limit: int) -> list[tuple[Any, ...]]:
        conditions, values = self._conditions(where)
        order = _orders()[f"{sort}_reversed" if reverse else sort]
        if limit:
            order, values["limit"] = f"{order} {_SQL['limited']}", limit
        if ":now" in order:
            values["now"] = clock.to_micros(self.now())
        query = _SQL[block].replace("/* index */", _index_for(where, sort))
        return self._db.rows(f"{query} {conditions} {order}", values)

    def _conditions(self, where: Filter) -> tuple[str, dict[str, Any]]:
        terms, values = [], {}
        for name, wanted in where.as_dict().items():
            if wanted is None:
                continue
            sql = _filters()[name]
            terms.append(f"and not ({sql})" if wanted is False else f"and ({sql})")
            if ":" + name in sql:
                values[name] = _bound(wanted)
            if name in ("label_glob", "label_regex", "text", "title_has", "description_has", "notes_has"):
                self._add_text_functions()
        if any(":now" in term for term in terms):
            values["now"] = clock.to_micros(self.now())
        return " ".join(terms), values

    def _add_text_functions(self) -> None:
        from fleet.core import matching  # costs a regex engine: only where text is searched

        self._db.add_function("folded", matching.folded)
        self._db.add_function("globbed", matching.globbed)
        self._db.add_function("searched", matching.searched)

    def _put_labels(self, task: Task) -> None:
        for label in set(task.labels):
            self._rows("insert_label", task=task.id, label=label)

    def _refresh_blocked(self, ids: list[str]) -> None:
        while ids:
            changed = self._first("refresh_blocked", ids=encode(ids))
            ids = self._first("children_of", ids=encode(changed)) if changed else []

    def _edge_changed(self, edge: Edge) -> None:
        waiting = self._first("waiters_on", id=edge.needs) if edge.type == dependency.PARENT_CHILD else []
        self._refresh_blocked([edge.task, *waiting])

    def _reaches(self, start: str, goal: str) -> bool:
        return bool(self._rows("reaches", start=start, goal=goal))

    def _held(self, claim: Claim) -> Task:
        task = self.get(claim.task.id)
        if (task.claim_owner, task.epoch) != (claim.owner, claim.epoch):
            raise ClaimLost(task.id, claim.epoch)
        return task

    def _claim_of(self, task: Task) -> Claim:
        assert task.claim_expires_at is not None
        return Claim(task=task, owner=task.claim_owner, epoch=task.epoch, expires_at=task.claim_expires_at)


def _index_for(where: Filter, sort: str) -> str:
    """The planner has no statistics and would sort everything that is open: say which index has the order already."""
    if where.claimable:
        is_lane = where.coder is not None and where.account is not None and where.mode is not None
        return _SQL["index_claimable_by_lane" if is_lane else "index_claimable"]
    if where.ready:
        return _SQL["index_ready"]
    if where.repo is not None and (where.branch is not None or where.branches is not None):
        return _SQL["index_by_branch"]
    return _SQL["index_unfinished"] if where.unfinished and sort == "priority" else ""


def _bound(value: Any) -> Any:
    if isinstance(value, tuple | dict):
        return encode(value)
    if hasattr(value, "tzinfo"):
        return clock.to_micros(value)
    return value


_loaded: dict[str, dict[str, str]] = {}


def _filters() -> dict[str, str]:
    return _loaded.get("filters") or _loaded.setdefault("filters", named_sql.load("sqlite", "filters"))


def _orders() -> dict[str, str]:
    return _loaded.get("orders") or _loaded.setdefault("orders", named_sql.load("sqlite", "orders"))
