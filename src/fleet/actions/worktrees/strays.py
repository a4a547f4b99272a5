"""Strays: live agents whose run is not recorded as live. Commands list them, and the next supervisor adopts them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.supervisor.lock import holder
from fleet.supervisor.strays import left_after_a_while, living, strays_among

if TYPE_CHECKING:
    from fleet.assembly import Fleet
    from fleet.supervisor.strays import Stray

TAKES_IN = "run `fleet run start` to adopt it, or to stop it and save its work"
AGAIN = "run `fleet run restart` to adopt or stop it"


def strays(fleet: Fleet) -> list[Stray]:
    """Return this home's live agents that are not recorded as live.

    An agent whose run has just ended gets a moment to exit.
    """
    found = strays_among(fleet.home, fleet.store, living(fleet.home))
    return [each for each in found if each.known is None or each.number in _left(fleet, each)]


def _left(fleet: Fleet, stray: Stray) -> list[int]:
    return left_after_a_while(fleet.home.task(stray.task_id))


def strays_unwatched(fleet: Fleet) -> list[str]:
    """Describe the strays if no supervisor runs. A running supervisor has looked for them at its start."""
    return [in_words(fleet, stray) for stray in strays(fleet)] if holder(fleet.home) is None else []


def in_words(fleet: Fleet, stray: Stray) -> str:
    """Return a line with the agent and what to do about it."""
    return f"{fact(stray)}; {remedy(fleet)}"


def fact(stray: Stray) -> str:
    where = f" in {stray.cwd}" if stray.cwd else ""
    return f"the agent of {stray.run_id} lives{where}, but the database does not list it as live"


def remedy(fleet: Fleet) -> str:
    return TAKES_IN if holder(fleet.home) is None else AGAIN
