"""Counts that are shown beside a task."""

from __future__ import annotations

from fleet.core.record import Record


class Tally(Record):
    """How many edges leave a task, how many reach it, how many of those hold work up, and how many comments it has."""

    dependencies: int = 0
    dependents: int = 0
    blockers: int = 0
    blocked: int = 0
    comments: int = 0
