"""Homes in which the real codex, claude and gemini work side by side, each with a scripted model of its own."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from model_server import ModelServer, Scenario, Turn
from real.cli_setups import cli_env
from real.through_fleet import MODELS, PATIENCE, Real, RealFleet
from repositories import make_repository

#: Where each CLI's model comes from in a workflow.
VARIABLES = {
    "codex": "FLEET_DEFAULT_MODEL",
    "claude": "FLEET_CLAUDE_DEFAULT_MODEL",
    "gemini": "FLEET_GEMINI_DEFAULT_MODEL",
}


class Mixed(NamedTuple):
    """A home in which each of three CLIs finds a model of its own."""

    home: RealFleet
    models: dict[str, Scenario]

    @property
    def repo(self) -> Path:
        """The repository that the workflow is about."""
        return self.home.fleet.cwd

    def ran(self, text: str, prompt: str) -> dict[str, Any]:
        """The workflow in this file, as `fleet workflow run` starts it, once nothing more happens to it."""
        file = self.home.fleet.user / "flow.json"
        file.write_text(text)
        return self.over(self.begun(file, prompt))

    def begun(self, file: Path, prompt: str) -> dict[str, Any]:
        """The workflow in a file, as it is started."""
        words = ("workflow", "run", str(file), "-p", prompt, "--repo", str(self.repo), "--json")
        made: dict[str, Any] = json.loads(self.home.fleet.ok(*words))
        return made

    def over(self, made: dict[str, Any]) -> dict[str, Any]:
        """The same once it has succeeded."""
        self.home.wait_all([str(each["task"]) for each in made["stages"]], "closed", "blocked", patience=PATIENCE)
        flow: dict[str, Any] = json.loads(self.home.fleet.ok("workflow", "status", str(made["id"]), "--json"))
        assert flow["status"] == "succeeded", self.describe()
        return flow

    def results(self, flow: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """What `fleet workflow results` shows of each stage."""
        told = json.loads(self.home.fleet.ok("workflow", "results", str(flow["id"]), "--json"))
        return {each["name"]: each for each in told["stages"]}

    def run_of(self, flow: dict[str, Any], name: str) -> dict[str, Any]:
        """The one run of a stage."""
        (run,) = self.home.runs(next(each["task"] for each in flow["stages"] if each["name"] == name))
        return run

    def heard(self, cli: str) -> Callable[[str], bool]:
        """Whether a CLI's model was told these words at the start."""
        return self.models[cli].turns()[0].holds

    def describe(self) -> str:
        """All that helps to see why."""
        asked = {cli: [str(each)[:400] for each in model.requests()] for cli, model in self.models.items()}
        return f"{self.home.describe()}\n{json.dumps(asked, indent=1)}"


@pytest.fixture
def mixed(real: Real, server: ModelServer) -> Callable[..., Mixed]:
    """Makes such a home, given the turns of each model."""

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
    """Have a home know one more CLI, which finds this model."""
    setup = cli_env(cli, model, Path(home.fleet.env["HOME"]))
    for path, text in setup.files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    home.fleet.env |= setup.env | {VARIABLES[cli]: MODELS[cli]}
