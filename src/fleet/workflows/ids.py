"""Ids of workflows and of the tasks that are their stages.

A stage's task id is derived from the workflow's id and the stage's name. So finding the task needs no lookup in the
graph.
"""

from __future__ import annotations

import hashlib
import os
import re

_ID = re.compile(r"wf_[0-9a-f]{12}")


def new_workflow_id() -> str:
    """Return an id for a new workflow, in codefleet's format."""
    return f"wf_{os.urandom(6).hex()}"


def is_workflow(text: str) -> bool:
    """Return True if the text has the form of a workflow id. The workflow need not exist."""
    return _ID.fullmatch(text) is not None


def task_of(workflow_id: str, stage: str) -> str:
    """Return the id of the task for this stage of the plan."""
    return f"w_{hashlib.sha256(f'{workflow_id}/{stage}'.encode()).hexdigest()[:12]}"
