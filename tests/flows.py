"""Workflows for tests: data made with as little said as a test needs, and what comes of it."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from fleet.core.workflow import Plan
from fleet.workflows.checking import Known
from fleet.workflows.faults import BadWorkflow, Fault
from fleet.workflows.planning import plan_from_data, plan_from_file

#: For tests over made-up data: a slow machine is no fault.
MADE_UP = settings(deadline=None, max_examples=60, database=None)

CODERS = ("claude", "codex", "gemini", "demo")

# As codefleet's own documents have them.
WRITE_REVIEW_REFINE = """{
  "name": "write-review-refine",
  "repo_path": "/path/to/your/repo",
  "task_prompt": "Validate what users type",
  "stages": [
    {
      "name": "implement",
      "executor": "codex",
      "prompt_template": "{task_prompt}",
      "worktree_strategy": "new",
      "depends_on": []
    },
    {
      "name": "review",
      "executor": "claude",
      "prompt_template": "Look at this:\\n{stage_0_summary}\\nFiles: {stage_0_files}",
      "worktree_strategy": "inherit",
      "depends_on": [0]
    },
    {
      "name": "refine",
      "executor": "codex",
      "prompt_template": "Do what it says:\\n{stage_1_summary}\\n{stage_1_next_steps}",
      "worktree_strategy": "inherit",
      "depends_on": [1]
    }
  ]
}"""
PARALLEL = """{
  "stages": [
    {"name": "module-a", "executor": "codex", "prompt_template": "{task_prompt}: A", "depends_on": []},
    {"name": "module-b", "executor": "gemini", "prompt_template": "{task_prompt}: B", "depends_on": []},
    {
      "name": "review",
      "executor": "claude",
      "prompt_template": "Both:\\nA: {stage_0_summary}\\nB: {stage_1_summary}",
      "worktree_strategy": "new",
      "depends_on": [0, 1]
    }
  ]
}"""
COMPETITION = PARALLEL.replace("module-a", "codex-impl").replace("module-b", "claude-impl").replace("gemini", "claude")


def a_stage(name: str, *needs: str | int, **more: Any) -> dict[str, Any]:
    """A stage like any other."""
    return {"name": name, "prompt_template": "do it", "depends_on": list(needs), **more}


def a_plan(*stages: dict[str, Any], **more: Any) -> Plan:
    """The plan of these stages."""
    return plan_from_data({"stages": list(stages), **more}, name="test", known=Known(CODERS.__contains__))


def faults_of(*stages: Any, **more: Any) -> list[Fault]:
    """All that is wrong with these stages."""
    with pytest.raises(BadWorkflow) as caught:
        a_plan(*stages, **more)
    return list(caught.value.faults)


def plan_in_file(folder: Path, name: str, text: str | bytes) -> Plan:
    """The plan in a file with this text."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return plan_from_file(str(path), known=Known(CODERS.__contains__))


def faults_in_file(folder: Path, name: str, text: str | bytes) -> list[str]:
    """All that is wrong with a file, as line:column: message."""
    with pytest.raises(BadWorkflow) as caught:
        plan_in_file(folder, name, text)
    return [str(fault).removeprefix(f"{folder / name}:") for fault in caught.value.faults]
