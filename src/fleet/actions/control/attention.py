"""Items that need a person, most urgent first, with the commands to type next.

`look` reads the queue once, and `rank_items` judges the result. A task that a person stopped needs no attention.
"""

from __future__ import annotations

import contextlib
import shlex
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.control.hosts import is_served
from fleet.actions.control.other_hosts import here
from fleet.actions.control.outlook import missing_logins_here, passed_over, unserved, waiting_coders, waits_for_trust
from fleet.actions.tasks.questions import options_in
from fleet.actions.tasks.screens import shown_dialogs
from fleet.actions.worktrees.rows import AgentRow, rows_of
from fleet.actions.worktrees.strays import fact, strays
from fleet.core.accounts import account_slots, is_parked, is_slowed, needs_login
from fleet.core.clock import EPOCH
from fleet.core.errors import FleetError
from fleet.core.filter import READY, Filter
from fleet.core.run import Account
from fleet.core.task import FANOUT, MERGE, PICK, Status
from fleet.core.task_status import QUESTION, ResultWord, TaskPhase, is_asked
from fleet.git.repository import Repository
from fleet.git.view import BRANCHES, View
from fleet.git.worktree_records import head_of
from fleet.supervisor.host import default_coder, settings_here
from fleet.supervisor.lock import holder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from fleet.actions.tasks.names import NameScope
    from fleet.actions.tasks.screens import Shown
    from fleet.assembly import Fleet
    from fleet.core.run import Question, Run
    from fleet.core.task import Task


class AttentionKind:
    """Reasons why an item needs a person, most urgent first."""

    SUPERVISOR = "supervisor"
    QUESTION = "question"
    DIALOG = "dialog"  # in its terminal
    LOGIN = "login"
    UNTRUSTED = "untrusted"
    FAILED = "failed"
    BLOCKED = "blocked"
    CONFLICT = "conflict"
    PARKED = "parked"
    PICK = "pick"  # one of several tasks with the same request
    MERGE = "merge"
    STRAY = "stray"


KINDS = tuple(value for name, value in vars(AttentionKind).items() if name.isupper())
#: Tasks that may need a person: blocked, or held by an agent at work. Stopped tasks are excluded.
NEEDING = Filter(statuses=(Status.BLOCKED, Status.IN_PROGRESS, Status.HOOKED), stopped=False)
UNFINISHED = Filter(statuses=(Status.OPEN, Status.DEFERRED, Status.IN_PROGRESS, Status.HOOKED))
MOST_TASKS = 1000
MOST_NAMES = 3
#: Characters of a dialog's text that are shown.
LONGEST_GIST = 240


class AttentionItem(NamedTuple):
    """Something that needs a person."""

    kind: str
    name: str  # a branch, else the ID of a task, batch or account
    title: str
    what: str
    since: datetime | None
    commands: tuple[str, ...]  # to type next
    tasks: tuple[str, ...] = ()
    options: tuple[str, ...] = ()  # choices, numbered from 1

    def view(self) -> dict[str, Any]:
        """Return the item as plain data."""
        since = self.since.isoformat(timespec="seconds") if self.since else None
        return self._asdict() | {
            "since": since,
            "commands": list(self.commands),
            "tasks": list(self.tasks),
            "options": list(self.options),
        }


def can_answer(item: AttentionItem) -> bool:
    """Return True if the item is a dialog whose whole text and options it shows."""
    return item.kind == AttentionKind.DIALOG and item.commands[0].startswith("fleet answer ")


class Picture(NamedTuple):
    """A snapshot of the queue."""

    now: datetime
    rows: dict[str, AgentRow]  # by task ID
    questions: Sequence[Question]  # unanswered
    recent: Sequence[str] = ()  # tasks of the runs that ended last, latest first
    unserved: str = ""  # a description of the work that waits for a supervisor; empty if none
    login: Sequence[Account] = ()  # accounts that need a login
    parked: Sequence[Account] = ()  # parked accounts that tasks wait for
    open_batches: frozenset[str] = frozenset()  # fan-outs with unfinished tasks
    landed: frozenset[str] = frozenset()  # tasks whose branches were merged with git
    strays: Mapping[str, str] = {}
    dialogs: Mapping[str, Shown] = {}  # recognized dialogs on screens, by task ID


def attention(fleet: Fleet, scope: NameScope) -> list[AttentionItem]:
    """Return the items that need a person, most urgent first.

    `scope` limits which tasks a command can name by branch.
    """
    return rank_items(look(fleet), scope)


def look(fleet: Fleet, *, since: datetime | None = None) -> Picture:
    """Read tasks that need a person, live runs and, if `since` is given, tasks whose runs ended after that time."""
    store, note = fleet.store, holder(fleet.home)
    served = note is not None or (store.is_shared and is_served(fleet))
    with store.snapshot():
        now, questions = store.now(), store.questions.find(unanswered=True)
        spaces = {space.task_id: space for space in store.workspaces.find()}
        live = {run.task_id: run for run in store.runs.live()}
        ended = store.runs.ended_last(after=since, limit=MOST_TASKS) if since is not None else []
        recent = tuple(dict.fromkeys(run.task_id for run in ended))
        found = store.tasks.find(NEEDING, sort="updated", limit=MOST_TASKS)
        others = {*spaces, *live, *recent, *(each.task_id for each in questions)} - {task.id for task in found}
        found += store.tasks.find(Filter(ids=tuple(others)), sort="id") if others else []
        rows = {row.task.id: row for row in rows_of(fleet, found, live, spaces, questions)}
        login, parked = _unusable(fleet, list(live.values()), now)
        waits = _unserved(fleet, rows, list(live.values()), served=served)
        fanned = {row.task.batch for row in rows.values() if row.task.origin == FANOUT and _is_mergeable(row)}
        going = frozenset(batch for batch in fanned if store.tasks.count(UNFINISHED.replace(batch=batch))[""])
    landed = _landed(fleet, [row for row in rows.values() if _is_mergeable(row)])
    unlisted = {each.task_id: fact(each) for each in strays(fleet)} if note is None else {}
    asking = [(row.task, row.run) for row in rows.values() if row.is_live and row.run is not None and not row.is_lost]
    dialogs = {each.task.id: each for each in shown_dialogs(fleet, asking)}
    return Picture(now, rows, questions, recent, waits, login, parked, going, landed, unlisted, dialogs)


def rank_items(seen: Picture, scope: NameScope) -> list[AttentionItem]:
    """Return the items of a snapshot that need a person, most urgent first.

    Items of one kind are ordered oldest first.
    """
    spelled = Names(seen.rows, scope)
    found = [*_of_home(seen), *_questions(seen), *_conflicts(seen), *_merges(seen, spelled)]
    for row in seen.rows.values():
        found += _of_task(row, spelled, seen.dialogs.get(row.task.id))
    return sorted(found, key=lambda each: (KINDS.index(each.kind), each.since or EPOCH, each.name))


class Names:
    """The names of tasks in commands: the branch if it is unambiguous here, else the ID."""

    def __init__(self, rows: Mapping[str, AgentRow], scope: NameScope) -> None:
        self._scope = scope
        self._counts = Counter(row.task.branch for row in rows.values())

    def spell(self, task: Task) -> str:
        """Return the name of a task, quoted for a shell."""
        is_meant = bool(task.branch) and self._counts[task.branch] == 1 and self._scope.repo in (None, task.repo)
        return shlex.quote(task.branch if is_meant else task.id)


def _of_home(seen: Picture) -> Iterator[AttentionItem]:
    if seen.unserved:
        lost = [row for row in seen.rows.values() if row.is_lost]
        gone = f" ({', '.join(row.name for row in lost[:MOST_NAMES])})" if lost else ""
        keys = tuple(row.task.id for row in lost)
        yield AttentionItem(
            AttentionKind.SUPERVISOR, "supervisor", "", f"{seen.unserved}{gone}", None, ("fleet run start",), keys
        )
    for account in seen.login:
        command = f"fleet accounts unpark {shlex.quote(_label(account))}"
        yield AttentionItem(
            AttentionKind.LOGIN, _label(account), "", f"log in: {account.parked_reason}", None, (command,)
        )
    for account in seen.parked:
        assert account.parked_until is not None
        what = f"parked until {account.parked_until.astimezone():%H:%M}: {account.parked_reason}"
        yield AttentionItem(AttentionKind.PARKED, _label(account), "", what, None, ("fleet accounts",))
    for key, what in seen.strays.items():
        yield AttentionItem(AttentionKind.STRAY, key, "", what, None, ("fleet run start",), (key,))


def _questions(seen: Picture) -> Iterator[AttentionItem]:
    waiting = [each for each in seen.questions if each.task_id in seen.rows]
    waiting = [each for each in waiting if is_asked(each, seen.rows[each.task_id].task)]
    counts = Counter(each.task_id for each in waiting)
    for each in waiting:
        row = seen.rows[each.task_id]
        named = row.task.id if counts[row.task.id] == 1 else each.id
        options = tuple(options_in(each.text))
        command = f"fleet answer {shlex.quote(named)} " + ("1" if options else '"…"')
        key = (row.task.id,)
        yield AttentionItem(
            AttentionKind.QUESTION, row.name, row.task.title, each.text, each.asked_at, (command,), key, options
        )


def _of_task(row: AgentRow, spelled: Names, shown: Shown | None) -> Iterator[AttentionItem]:
    """Yield the items of one task, except questions and merges."""
    task, run, derived, key = row.task, row.run, row.derived, (row.task.id,)
    if row.is_live and run is not None:
        if run.screen == QUESTION and not row.is_lost:
            since = run.last_event_at or run.started_at
            what, command, options = _dialog(shown, spelled.spell(task))
            yield AttentionItem(AttentionKind.DIALOG, row.name, task.title, what, since, (command,), key, options)
        return
    if derived.phase != TaskPhase.FAILED or derived.result == ResultWord.CUT_SHORT or not task.reason:
        return
    name, since = spelled.spell(task), (run and run.ended_at) or task.updated_at
    retry = f"fleet retry {name}"
    if waits_for_trust(task.reason):
        trust = f"fleet trust {shlex.quote(task.repo or task.cwd or '.')}"
        yield AttentionItem(AttentionKind.UNTRUSTED, row.name, task.title, task.reason, since, (trust, retry), key)
    elif derived.result == ResultWord.BLOCKED:
        yield AttentionItem(AttentionKind.BLOCKED, row.name, task.title, task.reason, since, (retry,), key)
    else:
        what = f"{derived.result}: {derived.why}"
        yield AttentionItem(
            AttentionKind.FAILED, row.name, task.title, what, since, (f"fleet receipt {name}", retry), key
        )


def _dialog(shown: Shown | None, name: str) -> tuple[str, str, tuple[str, ...]]:
    """Return the text of a dialog, the command to type next, and its options. A text that is cut cannot be answered."""
    if shown is None:
        return "waits for a choice at its terminal", f"fleet attach {name}", ()
    gist, options = shown.dialog.gist, tuple(each.text for each in shown.dialog.options)
    if len(gist) > LONGEST_GIST:
        return f"{gist[: LONGEST_GIST - 1]}…", "fleet questions", options
    return gist, f"fleet answer {name} 1", options


def _conflicts(seen: Picture) -> Iterator[AttentionItem]:
    """Yield one item for each pair of colliding branches, under the later branch."""
    for key, row in seen.rows.items():
        for clash in row.collides:
            other = seen.rows.get(clash.task)
            if other is None or (other.task.created_at, clash.task) > (row.task.created_at, key):
                continue
            if _are_rivals(row.task, other.task) or any(each.status == TaskPhase.STOPPED for each in (row, other)):
                continue
            more = f" and {len(clash.files) - 1} more" if len(clash.files) > 1 else ""
            what = f"collides with {clash.branch} in {clash.files[0] if clash.files else 'a file'}{more}"
            yield AttentionItem(
                AttentionKind.CONFLICT, row.name, row.task.title, what, None, ("fleet conflicts",), (key, clash.task)
            )


def _merges(seen: Picture, spelled: Names) -> Iterator[AttentionItem]:
    """Yield verified work that was not merged. A fan-out yields one `pick` item after all its tasks have ended."""
    batches: dict[tuple[str, str], list[AgentRow]] = {}
    for key, row in seen.rows.items():
        if row.task.origin == FANOUT and row.task.batch:
            batches.setdefault((row.task.repo, row.task.batch), []).append(row)
        elif _is_mergeable(row) and key not in seen.landed:
            since = row.run.ended_at if row.run else None
            command = f"fleet merge {spelled.spell(row.task)}"
            what = "verified, not merged"
            yield AttentionItem(AttentionKind.MERGE, row.name, row.task.title, what, since, (command,), (key,))
    for (_, batch), rows in batches.items():
        able = [row for row in rows if _is_mergeable(row)]
        if not able or batch in seen.open_batches or any(row.is_live for row in rows):
            continue
        if any(row.derived.result == ResultWord.MERGED or row.task.id in seen.landed for row in rows):
            continue
        since = max((row.run.ended_at for row in able if row.run and row.run.ended_at), default=None)
        what = f"{len(able)} of {len(rows)} verified, none merged"
        command = f"fleet pick {shlex.quote(batch)}"
        yield AttentionItem(
            AttentionKind.PICK, batch, rows[0].task.title, what, since, (command,), tuple(r.task.id for r in able)
        )


def _is_mergeable(row: AgentRow) -> bool:
    """Return True if verified work waits in a worktree. Workflows pass on the work of their stages themselves."""
    task, space = row.task, row.workspace
    if space is None or space.is_gone or space.removing_at is not None or not task.branch or row.is_live:
        return False
    return row.derived.result == ResultWord.VERIFIED and not task.workflow and task.origin not in (PICK, MERGE)


def _landed(fleet: Fleet, rows: Sequence[AgentRow]) -> frozenset[str]:
    """Return the tasks whose branches are merged into the main checkout's branch.

    Runs git twice per repository.
    """
    spaces = here(fleet, [row.workspace for row in rows if row.workspace is not None])
    found = set()
    for common in {space.common for space in spaces}:
        ours = [space for space in spaces if space.common == common]
        keys = {f"{BRANCHES}{space.branch}": space.task_id for space in ours}
        view = View(fleet.home, Repository(top=ours[0].repo, common=common))
        with contextlib.suppress(FleetError, OSError):  # a missing repository has nothing merged
            head = view.commit_of(f"{BRANCHES}{head_of(common)[0]}")
            names = view.text("for-each-ref", "--merged", head, "--format=%(refname)", *keys) if head else ""
            found |= {keys[name] for name in names.splitlines() if name in keys}
    return frozenset(found)


def _are_rivals(one: Task, other: Task) -> bool:
    """Return True if two tasks belong to the same fan-out, so that only one of them will be merged."""
    return bool(one.batch) and one.batch == other.batch and one.origin == other.origin == FANOUT


def _unserved(fleet: Fleet, rows: Mapping[str, AgentRow], live: Sequence[Run], *, served: bool) -> str:
    """Return a description of the work that waits for a supervisor, or an empty string."""
    if fleet.store.was_moved():
        return ""
    if served:
        others = passed_over(fleet)
        return f"the supervisor runs only tasks of `fleet create`: {_some(others, 'task')} waiting" if others else ""
    claimed = sum(row.task.is_supervised and not row.is_live for row in rows.values())
    return unserved(fleet, live, fleet.store.tasks.count(READY)[""] + claimed)


def _unusable(fleet: Fleet, live: Sequence[Run], now: datetime) -> tuple[list[Account], list[Account]]:
    """Return the accounts that need a login, and the parked accounts that tasks of their coder wait for."""
    if not fleet.store.claims.waiting_coders():
        return [], []
    known, settings = fleet.store.accounts.all(), settings_here(fleet.home)
    waiting = waiting_coders(fleet, default_coder(fleet.home, settings))
    busy = Counter((run.coder, run.account) for run in live)
    missing = missing_logins_here(fleet, settings, waiting)
    login = [Account(coder=each.coder, name=each.account, parked_reason=each.why) for each in missing]
    rest = []
    for each in (account for account in known if account.coder in waiting and is_parked(account, now)):
        if needs_login(each):
            login.append(each)
        elif not is_slowed(each, settings.limits):
            slots = account_slots(settings, each.coder, known, busy, now)
            rest += [] if any(slot.room for slot in slots) else [each]
    return login, rest


def _label(account: Account) -> str:
    return f"{account.coder}/{account.name}" if account.name else account.coder


def _some(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
