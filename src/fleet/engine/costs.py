"""The cost of a run: reported by its coder, computed from tokens and a price, or unknown. Unknown is never $0.

A coder reports a cost with each step or at the end of a turn. The cost of usage since then is computed. So a budget
also holds for a run that is still live and for a run that was killed before it reported a cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fleet.config.prices import dollars, price_of
from fleet.core.budget import no_price
from fleet.core.run import COMPUTED, REPORTED, UNKNOWN
from fleet.engine.fold import TOKENS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from fleet.coders.base import Coder
    from fleet.config import Settings
    from fleet.core.run import Run


class Cost(NamedTuple):
    """A cost in dollars, None if unknown, and its basis as recorded in a run."""

    usd: float | None
    basis: str


def costed(settings: Settings, run: Run) -> Run:
    """Return the run with its cost and the basis of that cost."""
    found = cost_of(settings, run)
    return run if found == (run.cost_usd, run.cost_basis) else run.replace(cost_usd=found.usd, cost_basis=found.basis)


def cost_of(settings: Settings, run: Run) -> Cost:
    """Return the cost of a run so far. A coder that reports $0 for tokens has no price for them."""
    paid = run.notes.get("paid", {})
    if not paid and run.cost_usd and run.cost_basis in (REPORTED, ""):
        return Cost(run.cost_usd, REPORTED)
    if not run.tokens:
        return Cost(run.cost_usd, run.cost_basis)
    usd, at = (paid["usd"], paid["tokens"]) if paid.get("usd") else (0.0, (0, 0, 0, 0))
    since = [getattr(run, f"{name}_tokens") - count for name, count in zip(TOKENS, at, strict=True)]
    if not any(since):
        return Cost(usd, REPORTED)
    sources = set()
    for name, size, counts in _parts(run, since):
        price = price_of(settings, [name] if name else names_of(run), run.started_at.date(), size=size)
        if price is None:
            return Cost(paid.get("usd") or None, UNKNOWN)
        usd += dollars(price.rates, *counts)
        sources.add(price.source)
    return Cost(usd, f"{COMPUTED}:{max(sources)}")


def names_of(run: Run) -> list[str]:
    """Return the names of a run's model: as requested and as reported. The report resolves "sonnet", for example."""
    return [name for name in (run.model, str(run.notes.get("model") or "")) if name]


def model_of(run: Run) -> str:
    """Return the name of a run's model for prices. Return a description if the name is unknown."""
    return str(run.notes.get("model") or "") or run.model or f"the model that {run.coder} chooses itself"


def reports_cost(coder: Coder, *, interactive: bool) -> bool:
    """Return True if a coder reports the cost of a run itself, at the latest at the end."""
    return coder.tells_cost and (coder.session_tells_cost or not interactive)


def why_no_price(settings: Settings, coder: Coder, model: str, day: date, *, interactive: bool) -> str:
    """Return why a dollar budget cannot hold for a new run. Return "" if it can.

    A short model name is allowed if the coder reports the full name. The run is stopped if that model has no price.
    """
    if reports_cost(coder, interactive=interactive) or (
        coder.tells_tokens and (model in coder.short_names or price_of(settings, [model], day))
    ):
        return ""
    if not coder.tells_tokens:
        return f"{coder.name} reports neither cost nor tokens: a dollar budget cannot hold for it"
    return no_price(model or f"the model that {coder.name} chooses itself")


def _parts(run: Run, since: list[int]) -> Iterator[tuple[str, int, list[int]]]:
    """Yield token counts by model and request size, first those kept apart, then the rest under the run's own model."""
    for key, counts in run.notes.get("apart", {}).items():
        size, _, name = key.partition(" ")
        yield name, int(size), counts
        since = [max(whole - part, 0) for whole, part in zip(since, counts, strict=True)]
    yield "", 0, since
