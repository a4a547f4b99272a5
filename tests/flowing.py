"""Workflows of agents that run shell lines, in a small repository, watched from outside."""

import json
from typing import Any

import pytest

from projects import orders, use_shell_coder
from terminals import Terminals
from terminals import home as at_home

__all__ = ["at_home"]


@pytest.fixture
def home(at_home: Terminals) -> Terminals:
    """Return fleet in a small repository, whose agents run shell lines and are identified by their stage."""
    use_shell_coder(at_home)
    at_home.fleet.env |= {"FLEET_DEFAULT_EXECUTOR": "shell"}
    return at_home


def handing_in(**told: Any) -> str:
    """Return a step that writes a result."""
    return f"echo '{json.dumps(told)}' > \"$FLEET_ARTIFACT_DIR/result.json\""


def stage(name: str, *steps: str, **more: Any) -> dict[str, Any]:
    """Return a stage whose agent runs these steps."""
    return {"name": name, "prompt_template": orders(*steps), **more}


def written(home: Terminals, *stages: dict[str, Any], **more: Any) -> str:
    """Write a file with these stages. Return its path."""
    path = home.fleet.user / "flow.json"
    path.write_text(json.dumps({"name": "flow", "stages": stages, **more}))
    return str(path)


def ran(home: Terminals, *stages: dict[str, Any], code: int = 0, **more: Any) -> dict[str, Any]:
    """Run the workflow of these stages to its end. Return its status."""
    done = home.fleet("workflow", "run", written(home, *stages, **more), "--wait", "--json")
    assert done.code == code, (done, home.describe())
    found: dict[str, Any] = json.loads(done.out)
    return found


def states(flow: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["state"] for each in flow["stages"]}


def task_of(flow: dict[str, Any], name: str) -> str:
    return next(str(each["task"]) for each in flow["stages"] if each["name"] == name)


def branch_of(flow: dict[str, Any], name: str) -> str:
    return next(str(each["branch"]) for each in flow["stages"] if each["name"] == name)


def heard(home: Terminals, flow: dict[str, Any], name: str) -> str:
    """Return the prompt that the agent of a stage received."""
    return (home.fleet.home / "tasks" / task_of(flow, name) / "heard").read_text()


def results(home: Terminals, flow: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in home.told("workflow", "results", flow["id"])["stages"]}
