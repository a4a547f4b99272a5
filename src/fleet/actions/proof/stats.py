"""Statistics of coders and models: the results of their runs, counted by the findings of their receipts."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from fleet.core import when
from fleet.core.errors import BadInput
from fleet.core.finding import FINDINGS, Finding
from fleet.core.record import Record
from fleet.core.run import COMPUTED, REPORTED, UNKNOWN
from fleet.settings.price_table import describe_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from fleet.assembly import Fleet
    from fleet.core.receipt import FindingCount
    from fleet.core.run import Run

#: A span without a sign. It means that long ago.
SPAN = re.compile(r"\s*\d{1,5}[hdwmy]\s*", re.IGNORECASE)
#: Findings that say nothing about the coder: infrastructure errors, and runs without a receipt.
NOT_JUDGED = (Finding.INFRA_ERROR, "")


class CoderStatistics(Record):
    """The results of the ended runs of one coder and model."""

    coder: str
    model: str = ""
    runs: int = 0
    tasks: int = 0  # number of tasks whose first run is among them
    cost_usd: float = 0.0
    costed: int = 0  # number of runs with a known cost
    computed: int = 0  # number of runs whose cost fleet computed
    seconds: float = 0.0  # of all runs together
    findings: dict[str, int] = {}  # noqa: RUF012 - never changed in place: records are frozen

    @property
    def verified(self) -> int:
        """Return the number of verified tasks. A verified run is the last run of its task."""
        return self.findings.get(Finding.VERIFIED, 0)

    @property
    def judged(self) -> int:
        """Return the number of runs that say something about the coder."""
        return sum(number for finding, number in self.findings.items() if finding not in NOT_JUDGED)

    @property
    def verified_rate(self) -> float | None:
        """Return the verified share of the judged runs. Return None if no run was judged."""
        return self.verified / self.judged if self.judged else None

    @property
    def retries(self) -> int:
        return self.runs - self.tasks

    @property
    def cost_per_verified(self) -> float | None:
        """Return the total cost, including failed runs, per verified task. Return None if unknown."""
        return self.cost_usd / self.verified if self.verified and self.is_priced else None

    @property
    def is_priced(self) -> bool:
        """Return True if the cost of some run is known."""
        return bool(self.costed or self.cost_usd)

    @property
    def mean_seconds(self) -> float | None:
        return self.seconds / self.runs if self.runs else None

    def plus(self, count: FindingCount) -> CoderStatistics:
        """Return the sum with the runs of one more finding."""
        return self.replace(
            runs=self.runs + count.runs,
            tasks=self.tasks + count.first_runs,
            cost_usd=self.cost_usd + count.cost_usd,
            costed=self.costed + count.costed,
            computed=self.computed + count.computed,
            seconds=self.seconds + count.seconds,
            findings={**self.findings, count.finding: self.findings.get(count.finding, 0) + count.runs},
        )

    def view(self) -> dict[str, Any]:
        return {
            "coder": self.coder,
            "model": self.model or None,
            "runs": self.runs,
            "tasks": self.tasks,
            "retries": self.retries,
            "verified": self.verified,
            "verified_rate": _rounded(self.verified_rate, 4),
            "cost_usd": _rounded(self.cost_usd, 6) if self.is_priced else None,
            "runs_with_cost": self.costed,
            "runs_with_computed_cost": self.computed,
            "cost_per_verified_task_usd": _rounded(self.cost_per_verified, 6),
            "seconds": round(self.seconds, 1),
            "mean_seconds": _rounded(self.mean_seconds, 1),
            "findings": {each: self.findings[each] for each in FINDINGS if each in self.findings},
            "runs_without_receipt": self.findings.get("", 0),
        }


def standings(fleet: Fleet, *, since: datetime | None = None, coder: str = "") -> list[CoderStatistics]:
    """Return the results of runs that ended since a moment, by coder and model. The most verified come first."""
    counts = fleet.store.receipts.finding_counts(since=since)
    found = summed(each for each in counts if coder in ("", each.coder))
    return sorted(found, key=lambda row: (-row.verified, -row.runs, row.coder, row.model))


def summed(counts: Iterable[FindingCount]) -> list[CoderStatistics]:
    """Return the sums of the counts for each coder and model."""
    found: dict[tuple[str, str], CoderStatistics] = {}
    for each in counts:
        key = (each.coder, each.model)
        found[key] = found.get(key, CoderStatistics(coder=each.coder, model=each.model)).plus(each)
    return list(found.values())


def total(rows: Iterable[CoderStatistics]) -> CoderStatistics:
    sums = CoderStatistics(coder="all")
    for row in rows:
        findings = {key: sums.findings.get(key, 0) + number for key, number in row.findings.items()}
        numbers = ("runs", "tasks", "cost_usd", "costed", "computed", "seconds")
        added = {name: getattr(sums, name) + getattr(row, name) for name in numbers}
        sums = sums.replace(**added, findings={**sums.findings, **findings})
    return sums


class Spending(NamedTuple):
    """What runs cost in a period, including live runs."""

    period: str
    since: datetime | None
    cost_usd: float | None
    cost_basis: str  # how much of the cost is known: reported, computed or unknown
    tokens: int
    runs: int
    verified: int

    def view(self) -> dict[str, Any]:
        since = self.since.isoformat(timespec="seconds") if self.since else None
        return self._asdict() | {"since": since}


def spending(fleet: Fleet, periods: Mapping[str, datetime | None]) -> list[Spending]:
    """Return what runs cost since each of these moments. None means from the beginning."""
    live = fleet.store.runs.live()
    return [_spending(fleet, live, period, since) for period, since in periods.items()]


def _spending(fleet: Fleet, live: Sequence[Run], period: str, since: datetime | None) -> Spending:
    counts = fleet.store.receipts.finding_counts(since=since)
    runs = sum(each.runs for each in counts) + len(live)
    priced = [run.cost_usd for run in live if run.cost_usd is not None]
    known = sum(each.costed for each in counts) + len(priced)
    is_computed = any(each.computed for each in counts) or any(run.prices for run in live)
    return Spending(
        period=period,
        since=since,
        cost_usd=round(sum(each.cost_usd for each in counts) + sum(priced), 6) if known else None,
        cost_basis=UNKNOWN if known < runs else COMPUTED if is_computed else REPORTED,
        tokens=sum(each.tokens for each in counts) + sum(run.tokens for run in live),
        runs=runs,
        verified=sum(each.runs for each in counts if each.finding == Finding.VERIFIED),
    )


def prices_in_words() -> str:
    """Return the source and the age of the prices by which fleet computes costs."""
    return describe_table(datetime.now(UTC).date())


def moment(text: str, *, now: datetime) -> datetime:
    """Return the start of a period. 7d means seven days ago; other times as everywhere.

    Raises BadInput for an invalid or future time.
    """
    found = when.parse(f"-{text.strip()}" if SPAN.fullmatch(text) else text, now=now)
    if found > now:
        raise BadInput(f"{text!r} is in the future", hint="pass a time like 7d, yesterday or 2026-01-15")
    return found


def _rounded(number: float | None, digits: int) -> float | None:
    return None if number is None else round(number, digits)
