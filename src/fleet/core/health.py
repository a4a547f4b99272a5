"""Vital signs: what something says of its own health, each with its remedy."""

from __future__ import annotations

from fleet.core.record import Record


class State:
    """How a vital sign looks."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


class Vital(Record):
    """One thing that was looked at; the remedy is empty where nothing has to be done."""

    name: str
    state: str
    fact: str
    remedy: str = ""
