"""Homes in which the real codex, claude and gemini work side by side, each with its own scripted model."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from model_server import ModelServer, Scenario, Turn
from real.cli_setups import cli_env
from real.through_fleet import MODELS, PATIENCE, Real, RealFleet
from repositories import make_repository

#: The variable that sets each CLI's model in a workflow.
VARIABLES = {
    "codex": "FLEET_DEFAULT_MODEL",
    "claude": "FLEET_CLAUDE_DEFAULT_MODEL",
    "gemini": "FLEET_GEMINI_DEFAULT_MODEL",
}


class Mixed(NamedTuple):
    """A home in which each of three CLIs has its own model."""

    home: RealFleet
    models: dict[str, Scenario]

    @property
    def repo(self) -> Path:
        """Return the repository of the workflow."""
        return self.home.fleet.cwd

    def ran(self, text: str, prompt: str) -> dict[str, Any]:
        """Run the workflow in this text with `fleet workflow run`. Return the workflow after its end."""
        file = self.home.fleet.user / "flow.json"
        file.write_text(text)
        return self.over(self.begun(file, prompt))

    def begun(self, file: Path, prompt: str) -> dict[str, Any]:
        """Start the workflow in a file. Return the started workflow."""
        words = ("workflow", "run", str(file), "-p", prompt, "--repo", str(self.repo), "--json")
        made: dict[str, Any] = json.loads(self.home.fleet.ok(*words))
        return made

    def over(self, made: dict[str, Any]) -> dict[str, Any]:
        """Wait for the end of a workflow and assert its success. Return the workflow."""
        self.home.wait_all([str(each["task"]) for each in made["stages"]], "closed", "blocked", patience=PATIENCE)
        flow: dict[str, Any] = json.loads(self.home.fleet.ok("workflow", "status", str(made["id"]), "--json"))
        assert flow["status"] == "succeeded", self.describe()
        return flow

    def results(self, flow: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the results of each stage from `fleet workflow results`."""
        told = json.loads(self.home.fleet.ok("workflow", "results", str(flow["id"]), "--json"))
        return {each["name"]: each for each in told["stages"]}

    def run_of(self, flow: dict[str, Any], name: str) -> dict[str, Any]:
        """Return the only run of a stage."""
        (run,) = self.home.runs(next(each["task"] for each in flow["stages"] if each["name"] == name))
        return run

    def heard(self, cli: str) -> Callable[[str], bool]:
        """Return a function that tells if the first turn of a CLI's model contains some words."""
        return self.models[cli].turns()[0].holds

    def describe(self) -> str:
        """Return all facts that help to explain a failure."""
        asked = {cli: [str(each)[:400] for each in model.requests()] for cli, model in self.models.items()}
        return f"{self.home.describe()}\n{json.dumps(asked, indent=1)}"


@pytest.fixture
def mixed(real: Real, server: ModelServer) -> Callable[..., Mixed]:
    """Return a function that creates such a home from the turns of each model."""

    def make(*, per_conversation: bool = False, **turns: list[Turn]) -> Mixed:
        models = {
            cli: server.scenario(each, name=f"flow-{cli}", per_conversation=per_conversation)
            for cli, each in turns.items()
        }
        home = real("codex", models["codex"])
        for cli in models:
            join(home, cli, models[cli])
        home.fleet.cwd = make_repository(home.fleet.cwd / "repo")
        home.start()
        return Mixed(home, models)

    return make


def join(home: RealFleet, cli: str, model: Scenario) -> None:
    setup = cli_env(cli, model, Path(home.fleet.env["HOME"]))
    for path, text in setup.files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    home.fleet.env |= setup.env | {VARIABLES[cli]: MODELS[cli]}
