"""Conversion of a workflow file to its plan. All checks come first, so an invalid file reports all of its faults."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from fleet.core.workflow import Plan
from fleet.workflows import reading
from fleet.workflows.checking import check
from fleet.workflows.faults import Document, Faults
from fleet.workflows.graph import Graph
from fleet.workflows.unrolling import unrolled
from fleet.workflows.written import LONGEST_NAME, written

if TYPE_CHECKING:
    from fleet.workflows.checking import Known


def plan_from_file(path: str, *, known: Known) -> Plan:
    """Return the plan in a file. `known` describes this installation.

    Raises BadWorkflow with every fault, or BadInput.
    """
    stem = os.path.splitext(os.path.basename(path))[0]  # noqa: PTH119, PTH122 - paths of users are strings
    return _plan(reading.read(path), name=stem, known=known)


def plan_from_data(data: Any, *, name: str, known: Known) -> Plan:
    """Return the plan in plain data that is not from a file. Raises BadWorkflow, whose faults name paths of values."""
    return _plan(Document("", data, {}, {}), name=name, known=known)


def _plan(document: Document, *, name: str, known: Known) -> Plan:
    faults = Faults(document)
    flow = written(document.data, faults)
    graph = Graph(flow.stages, faults)
    check(graph, known, faults)
    faults.refuse()
    return Plan(
        name=flow.name or _plain(name),
        stages=unrolled(graph, on_failure=flow.on_failure, timeout_seconds=flow.timeout_seconds),
        description=flow.description,
        task_prompt=flow.task_prompt,
        on_failure=flow.on_failure,
        repo_hint=flow.repo_hint,
        base=flow.base,
    )


def _plain(name: str) -> str:
    """Return a file name, which may contain any characters, as a valid name of a workflow."""
    shown = "".join(char if char.isprintable() else " " for char in name).strip()
    return shown[:LONGEST_NAME] or "workflow"
