"""Workflows for tests: data with defaults for everything that a test does not set, and their plans or faults."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from fleet.core.workflow import WorkflowPlan
from fleet.workflows.check import KnownNames
from fleet.workflows.faults import BadWorkflow, Fault
from fleet.workflows.plan import plan_from_data, plan_from_file

#: For tests over generated data: a slow machine is not a fault.
MADE_UP = settings(deadline=None, max_examples=60, database=None)

CODERS = ("claude", "codex", "gemini", "demo")

#: The three examples of codefleet's own document, character for character.
EXAMPLES = Path(__file__).parent / "recordings" / "codefleet"
WRITE_REVIEW_REFINE, PARALLEL, COMPETITION = (
    (EXAMPLES / f"{name}.json").read_text() for name in ("write-review-refine", "parallel-review", "competition")
)


def a_stage(name: str, *needs: str | int, **more: Any) -> dict[str, Any]:
    """Return a stage with defaults for all other keys."""
    return {"name": name, "prompt_template": "do it", "depends_on": list(needs), **more}


def a_plan(*stages: dict[str, Any], **more: Any) -> WorkflowPlan:
    """Return the plan of these stages."""
    return plan_from_data({"stages": list(stages), **more}, name="test", known=KnownNames(CODERS.__contains__))


def faults_of(*stages: Any, **more: Any) -> list[Fault]:
    """Return all faults of these stages."""
    with pytest.raises(BadWorkflow) as caught:
        a_plan(*stages, **more)
    return list(caught.value.faults)


def plan_in_file(folder: Path, name: str, text: str | bytes) -> WorkflowPlan:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return plan_from_file(str(path), known=KnownNames(CODERS.__contains__))


def faults_in_file(folder: Path, name: str, text: str | bytes) -> list[str]:
    """Return all faults of a file as "line:column: message"."""
    with pytest.raises(BadWorkflow) as caught:
        plan_in_file(folder, name, text)
    return [str(fault).removeprefix(f"{folder / name}:") for fault in caught.value.faults]
