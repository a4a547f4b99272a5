"""The ids of workflows and of the tasks that are their stages.

A stage's task can be told from its workflow and its name: whoever looks for it need not read the whole graph.
"""

from __future__ import annotations

import hashlib
import os


def new_workflow_id() -> str:
    """An id for a new workflow, as codefleet makes them."""
    return f"wf_{os.urandom(6).hex()}"


def task_of(workflow_id: str, stage: str) -> str:
    """The id of the task that is this stage of the plan."""
    return f"w_{hashlib.sha256(f'{workflow_id}/{stage}'.encode()).hexdigest()[:12]}"
