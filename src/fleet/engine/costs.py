"""What a run cost: as its coder reported it, else computed from its tokens and a price, else unknown: never $0.

A coder reports a cost with each step or at the end of a turn. What it has used since then is computed, so that a budget
holds for a run that is still at work, and for one that was killed before it reported anything.
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
    """Dollars, None if nothing is known of them; and the basis as a run keeps it."""

    usd: float | None
    basis: str


def costed(settings: Settings, run: Run) -> Run:
    """Return the run with its cost, and what that is based on."""
    found = cost_of(settings, run)
    return run if found == (run.cost_usd, run.cost_basis) else run.replace(cost_usd=found.usd, cost_basis=found.basis)


def cost_of(settings: Settings, run: Run) -> Cost:
    """Return what a run cost so far. A coder that reports $0 for tokens has no price for them."""
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
    """Return what the model of a run is called: by whoever chose it, and by its coder, which knows what "sonnet" is."""
    return [name for name in (run.model, str(run.notes.get("model") or "")) if name]


def model_of(run: Run) -> str:
    """Return the model of a run as a person would set its price."""
    return str(run.notes.get("model") or "") or run.model or f"the model that {run.coder} chooses itself"


def reports_cost(coder: Coder, *, interactive: bool) -> bool:
    """Return True if a coder reports by itself what a run cost, at the end at the latest."""
    return coder.tells_cost and (coder.session_tells_cost or not interactive)


def why_no_price(settings: Settings, coder: Coder, model: str, day: date, *, interactive: bool) -> str:
    """Return why a dollar budget cannot hold for a run that is to begin; empty if it can.

    A short name of a model is allowed if the coder reports what it stands for: the run is stopped if that has no price.
    """
    if reports_cost(coder, interactive=interactive) or (
        coder.tells_tokens and (model in coder.short_names or price_of(settings, [model], day))
    ):
        return ""
    if not coder.tells_tokens:
        return f"{coder.name} reports neither cost nor tokens: a dollar budget cannot hold for it"
    return no_price(model or f"the model that {coder.name} chooses itself")


def _parts(run: Run, since: list[int]) -> Iterator[tuple[str, int, list[int]]]:
    """The tokens by model and size of their requests, as far as they differ from those of the rest."""
    for key, counts in run.notes.get("apart", {}).items():
        size, _, name = key.partition(" ")
        yield name, int(size), counts
        since = [max(whole - part, 0) for whole, part in zip(since, counts, strict=True)]
    yield "", 0, since
