"""Health checks, each with its remedy."""

from __future__ import annotations

from fleet.core.record import Record


class HealthState:
    """The results of a health check."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


class HealthCheck(Record):
    """The result of one health check. The remedy is empty if nothing has to be done."""

    name: str
    state: str
    fact: str
    remedy: str = ""
