"""Limits of a run and of its account: the task's own limits override the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from fleet.core.errors import BadInput
from fleet.core.watchdog import Watchdog
from fleet.settings.check import check_value
from fleet.settings.keys import KEYS

if TYPE_CHECKING:
    from fleet.core.rules import Rules
    from fleet.core.task import Task
    from fleet.settings.load import Settings
    from fleet.settings.sections import LimitSettings

SECTION = "watchdog"


def watchdog_for(settings: Settings, task: Task) -> Watchdog:
    """Return the limits for a task: its own limits over the settings of its project and home."""
    given, ignored = _decode_own_limits(task.limits)
    said = msgspec.structs.asdict(settings.watchdog) | given
    return Watchdog(**said, context_pct=settings.context_pressure_threshold_pct, ignored=tuple(ignored))


def account_limits_for(limits: LimitSettings, rules: Rules) -> LimitSettings:
    """Return the limits for the account of a run. The account is parked no longer than the task's rules allow.

    Otherwise the task would wait for its account, whatever its own pauses are.
    """
    named = ("rate_limit_base_seconds", "rate_limit_max_seconds")
    said: dict[str, float] = {
        name: min(getattr(limits, name), value) for name in named if (value := getattr(rules, name)) is not None
    }
    if rules.rate_limit_retries is not None:
        said["rate_limit_retries"] = max(limits.rate_limit_retries, rules.rate_limit_retries)
    return msgspec.structs.replace(limits, **said) if said else limits


def _decode_own_limits(text: str) -> tuple[dict[str, Any], list[str]]:
    if not text:
        return {}, []
    try:
        table = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        table = None
    if not isinstance(table, dict):
        return {}, ["the task's limits are not a JSON object"]
    good, ignored = {}, []
    for name, value in table.items():
        key = KEYS.get((SECTION, name))
        try:
            if key is None:
                raise BadInput(f"unknown limit {name}")
            check_value(key, value)
            good[name] = value
        except BadInput as error:
            ignored.append(f"the task's limits: {error}")
    return good, ignored
