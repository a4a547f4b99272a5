"""Warnings for callers that create work: why it does not start here, or may not get far."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet import coders
from fleet.coders.base import Order
from fleet.core.errors import FleetError
from fleet.core.host import parse_requirements
from fleet.core.task import Task
from fleet.settings import coder_settings, load
from fleet.supervisor.admission_inputs import unusable
from fleet.supervisor.host import settings_here
from fleet.supervisor.lock import PAUSED

if TYPE_CHECKING:
    from collections.abc import Collection

    from fleet.actions.workers.workflows import Flow
    from fleet.assembly import Fleet
    from fleet.settings import Settings


def why_waiting(fleet: Fleet, names: Collection[str]) -> dict[str, str]:
    """Return why each of these coders cannot start agents here now. Coders that can start are left out."""
    if not names or fleet.store.is_shared:  # other hosts may have what is missing here
        return {}
    settings = settings_here(fleet.home)
    paused = "paused; `fleet resume` goes on" if PAUSED in fleet.store.config.all() else ""
    told = {name: paused or _unusable(name, settings) for name in names}
    return {name: why for name, why in told.items() if why}


def warnings(fleet: Fleet, names: Collection[str], repo: str = "") -> list[str]:
    """Return the problems in the way of work for these coders, each with a remedy."""
    found = [f"{why}; what is made for it waits" for why in why_waiting(fleet, sorted(names)).values()]
    settings = load(fleet.home, repo or None, env={})
    unsaid = [name for name in sorted(names) if _is_unsaid(name, settings) and _asks(fleet, name, settings)]
    if unsaid:
        found.append(
            f"permissions were never chosen, so {' and '.join(unsaid)} may use only the tools that your own settings "
            "of it allow, and no person can grant more: `fleet init --permissions skip` lets agents use "
            "all tools unasked, `fleet init --permissions user` leaves it so"
        )
    return found


def of_stages(fleet: Fleet, flow: Flow) -> list[str]:
    """Return the warnings for a new workflow. Stages that require certain hosts are left out."""
    here = [seen.task for seen in flow.stages if seen.task is not None and not parse_requirements(seen.task.requires)]
    return warnings(fleet, {task.coder for task in here}, flow.workflow.repo)


def _unusable(name: str, settings: Settings) -> str:
    why = unusable(name or settings.coder, settings)
    return f"{name or settings.coder} cannot be used: {why}" if why else ""


def _is_unsaid(name: str, settings: Settings) -> bool:
    return settings.permissions is None and coder_settings(settings, name).permissions is None


def _asks(fleet: Fleet, name: str, settings: Settings) -> bool:
    """Return True if a coder asks before it uses tools: its command then changes if it must not ask."""
    try:
        coder = coders.load(name, settings)
    except FleetError:
        return False
    now = fleet.store.now()
    order = Order(task=Task(id="task", title="task", created_at=now, updated_at=now), prompt="")
    return coder.command(order) != coder.command(order.replace(permissions="skip"))
