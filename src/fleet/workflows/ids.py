"""The ids of workflows and of the tasks that are their stages.

A stage's task can be told from its workflow and its name: whoever looks for it need not read the whole graph.
"""

from __future__ import annotations

import hashlib
import os
import re

_ID = re.compile(r"wf_[0-9a-f]{12}")


def new_workflow_id() -> str:
    """An id for a new workflow, as codefleet makes them."""
    return f"wf_{os.urandom(6).hex()}"


def is_workflow(text: str) -> bool:
    """Whether this is the id of a workflow, be there such a one or not."""
    return _ID.fullmatch(text) is not None


def task_of(workflow_id: str, stage: str) -> str:
    """The id of the task that is this stage of the plan."""
    return f"w_{hashlib.sha256(f'{workflow_id}/{stage}'.encode()).hexdigest()[:12]}"
