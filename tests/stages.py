"""Workflows that run in tests: stages whose agents do what they are told, and what came of them."""

import json
from typing import Any

import pytest

from projects import orders, use_shell_coder
from terminals import Terminals
from terminals import home as at_home

__all__ = ["at_home"]


@pytest.fixture
def home(at_home: Terminals) -> Terminals:
    """Fleet in a small repository, whose agents do what they are told, and are told apart by their stage."""
    use_shell_coder(at_home)
    at_home.fleet.env |= {"FLEET_DEFAULT_EXECUTOR": "shell"}
    return at_home


def handing_in(**told: Any) -> str:
    """A step that writes a result."""
    return f"echo '{json.dumps(told)}' > \"$FLEET_ARTIFACT_DIR/result.json\""


def stage(name: str, *steps: str, **more: Any) -> dict[str, Any]:
    """A stage whose agent does these."""
    return {"name": name, "prompt_template": orders(*steps), **more}


def written(home: Terminals, *stages: dict[str, Any], **more: Any) -> str:
    """A file with these stages."""
    path = home.fleet.user / "flow.json"
    path.write_text(json.dumps({"name": "flow", "stages": stages, **more}))
    return str(path)


def ran(home: Terminals, *stages: dict[str, Any], code: int = 0, **more: Any) -> dict[str, Any]:
    """The workflow of these stages, once nothing more happens to it."""
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
    """What the agent of a stage was told."""
    return (home.fleet.home / "tasks" / task_of(flow, name) / "heard").read_text()


def results(home: Terminals, flow: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in home.told("workflow", "results", flow["id"])["stages"]}
