"""From a workflow file to its plan. The whole check comes first: there is a plan, or there is every fault at once."""

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
    """The plan in a file; `known` tells what there is beside it. Raises BadWorkflow with every fault, or BadInput."""
    stem = os.path.splitext(os.path.basename(path))[0]  # noqa: PTH119, PTH122 - paths of users are strings
    return _plan(reading.read(path), name=stem, known=known)


def plan_from_data(data: Any, *, name: str, known: Known) -> Plan:
    """The plan in plain data that was never a file. Raises BadWorkflow, whose faults name the way to each value."""
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
    """The name of a file, which can be anything, as the name of a workflow."""
    shown = "".join(char if char.isprintable() else " " for char in name).strip()
    return shown[:LONGEST_NAME] or "workflow"
