"""The overview: what needs a person, what runs, what ended since the last look, and totals."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.control.attention import AttentionKind, look, rank_items
from fleet.actions.control.outlook import outlook
from fleet.actions.worktrees.rows import with_cpu
from fleet.core.errors import BadInput, FleetError
from fleet.core.finding import Finding
from fleet.core.jsontext import decode, encode
from fleet.core.run import COMPUTED, REPORTED
from fleet.core.task_status import TaskPhase
from fleet.files import atomic_write, read_small

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from fleet.actions.control.attention import AttentionItem
    from fleet.actions.control.outlook import Outlook
    from fleet.actions.tasks.names import NameScope
    from fleet.actions.tasks.screens import Shown
    from fleet.actions.worktrees.rows import AgentRow
    from fleet.assembly import Fleet
    from fleet.home import Home

#: Looks within this time count as one look, so that finished tasks do not vanish at once.
ONE_LOOK = timedelta(minutes=10)
#: The longest period shown: before the first look, and after a long absence.
LONGEST = timedelta(days=1)
#: The findings of runs without a result. They do not count as judged work.
NO_RESULT = ("", Finding.INCOMPLETE, Finding.INFRA_ERROR)


class Today(NamedTuple):
    """The cost and the results of one day's runs."""

    cost_usd: float | None
    cost_basis: str
    tokens: int
    verified: int
    judged: int  # number of results, verified or not


class Overview(NamedTuple):
    """The state of the fleet on one page."""

    needs: list[AttentionItem]
    working: list[AgentRow]
    done: list[AgentRow]
    since: datetime
    today: Today
    ahead: Outlook
    running: int
    dialogs: Mapping[str, Shown]  # by task ID

    def view(self) -> dict[str, Any]:
        """Return the overview as plain data."""
        ahead = self.ahead
        return {
            "needs_you": [each.view() for each in self.needs],
            "working": [row.view() for row in self.working],
            "done": [row.view() for row in self.done],
            "since": self.since.isoformat(timespec="seconds"),
            "totals": {
                "running": self.running,
                "ready": ahead.ready,
                "put_off": ahead.later,
                "waiting": ahead.waiting,
                "blocked": ahead.blocked,
                "nothing_starts": ahead.reasons,
                "today": self.today._asdict(),
            },
        }


def overview(fleet: Fleet, scope: NameScope, *, midnight: datetime) -> Overview:
    """Return an overview of all tasks. Totals count from `midnight` on."""
    now = fleet.store.now()
    since = max(last_look(fleet.home, now), now - LONGEST)
    seen = look(fleet, since=since)
    needs = rank_items(seen, scope)
    shown = {
        key
        for each in needs
        if each.kind not in (AttentionKind.CONFLICT, AttentionKind.PICK, AttentionKind.MERGE)
        for key in each.tasks
    }
    rows = seen.rows.values()
    working = with_cpu(fleet, [row for row in rows if _works(row) and row.task.id not in shown])
    done = [seen.rows[key] for key in seen.recent if key in seen.rows]
    live = [row for row in rows if row.is_live and not row.is_lost]
    return Overview(
        needs=needs,
        working=sorted(working, key=lambda row: (row.run.started_at if row.run else now, row.task.id)),
        done=[row for row in done if row.status in (TaskPhase.FINISHED, TaskPhase.STOPPED) and not row.is_live],
        since=since,
        today=_today(fleet, live, midnight),
        ahead=outlook(fleet),
        running=len(live),
        dialogs=seen.dialogs,
    )


def last_look(home: Home, now: datetime) -> datetime:
    """Return the time since which results are new to a person. Without an earlier look, that is a day ago."""
    begun, since = _looks(home)
    if begun is None or begun > now:
        return now - LONGEST
    return begun if now - begun >= ONE_LOOK or since is None else since


def note_look(home: Home, now: datetime) -> None:
    """Remember that a person looked now, unless this look belongs to an earlier one. Ignore a read-only home."""
    begun, _ = _looks(home)
    if begun is not None and timedelta() <= now - begun < ONE_LOOK:
        return
    told = {"at": now.isoformat(), "since": last_look(home, now).isoformat()}
    try:
        atomic_write(home.last_look, encode(told).encode())
    except FleetError:
        return


def _looks(home: Home) -> tuple[datetime | None, datetime | None]:
    """Return when the last look began, and since when results were new to it. Return None twice if that is unknown."""
    try:
        told = decode(read_small(home.last_look, 4096).decode())
        at, since = datetime.fromisoformat(told["at"]), datetime.fromisoformat(told["since"])
    except (OSError, BadInput, ValueError, TypeError, KeyError):
        return None, None
    return (at, since) if at.tzinfo and since.tzinfo else (None, None)


def _works(row: AgentRow) -> bool:
    return row.status in (TaskPhase.STARTING, TaskPhase.WORKING, TaskPhase.IDLE, TaskPhase.WAITING)


def _today(fleet: Fleet, live: list[AgentRow], midnight: datetime) -> Today:
    counts = fleet.store.receipts.finding_counts(since=midnight)
    runs = [row.run for row in live if row.run is not None]
    costs = [run.cost_usd for run in runs if run.cost_usd is not None]
    has_cost = bool(costs) or any(each.costed for each in counts)
    is_computed = any(each.computed for each in counts) or any(run.prices for run in runs)
    return Today(
        cost_usd=round(sum(costs) + sum(each.cost_usd for each in counts), 6) if has_cost else None,
        cost_basis=COMPUTED if is_computed else REPORTED,
        tokens=sum(each.tokens for each in counts) + sum(run.tokens for run in runs),
        verified=sum(each.runs for each in counts if each.finding == Finding.VERIFIED),
        judged=sum(each.runs for each in counts if each.finding not in NO_RESULT),
    )
