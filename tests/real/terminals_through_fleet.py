"""Real CLIs in terminals of fleet: a repository, a separate tmux and the scripted model, in the closed network."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from model_server import ModelServer, Request, Scenario, Turn
from model_server.network import ClosedNetwork
from program import Program
from real.cli_runs import program
from real.cli_setups import cli_env
from real.through_fleet import MODELS
from supervised import commands, wait_for
from terminals import Terminals

#: A CLI starts slowly on a busy machine.
PATIENCE = 180.0
#: The variable that names the account folder of each CLI.
FOLDER_VARIABLES = {"claude": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME"}
USED = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


class RealTerminals(Terminals):
    """A home whose coder is a real CLI with one scenario, and whose agents have terminals."""

    def __init__(self, base: Path, network: ClosedNetwork, cli: str, scenario: Scenario, *, own: bool = True) -> None:
        """Create the home. With `own`, its account has a separate folder; otherwise its login is that of the user."""
        program(cli)
        self.cli, self.scenario = cli, scenario
        self.folder = base / "cli-home" / cli
        fleet = Program(base)
        setup = cli_env(cli, scenario, base / "cli-home")
        for path in (self.folder, base / "cli-home" / "tmp"):
            path.mkdir(parents=True)
        for path, text in setup.files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        fleet.env = setup.env | {"FLEET_HOME": str(fleet.home)}
        fleet.argv = network.enter(*fleet.argv)
        if own:
            del fleet.env[FOLDER_VARIABLES[cli]]
        elif cli == "claude":
            del fleet.env["CLAUDE_CONFIG_DIR"]
            fleet.env |= {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": scenario.key}
            (base / "cli-home" / ".claude.json").write_text('{"hasCompletedOnboarding": true}')
        else:
            with (self.folder / "config.toml").open("a") as settings:
                settings.write('[notice.model_migrations]\n"gpt-5.5" = "gpt-6-sol"\n')
        super().__init__(fleet)
        fleet.ok("init", "--home", "--permissions", "skip")
        self.set(f"coder={cli}", f"model={MODELS[cli]}", "agent.pass_env=SCRIPTED_KEY")
        if own:
            self._add(f'[[accounts]]\nname = "own"\ncoder = "{cli}"\nconfig_dir = "{self.folder}"')

    def price(self, **dollars: float) -> None:
        """Set the price of a million tokens of each kind."""
        self._add('[prices."*"]\n' + "\n".join(f"{kind} = {price}" for kind, price in dollars.items()))

    def _add(self, settings: str) -> None:
        with (self.fleet.home / "runtime.toml").open("a") as file:
            file.write(f"\n{settings}\n")

    def agent(self, branch: str, *argv: str) -> str:
        """Create an agent on a branch. Return the id of its task."""
        return str(self.told("create", branch, *argv)["task"])

    def settings_of_the_user(self) -> list[Path]:
        """Return the files in which the CLI keeps the user's settings."""
        return [path for path in (self.folder.parent / ".claude.json", self.folder / "config.toml") if path.exists()]

    def worktree(self, branch: str) -> Path:
        return Path(self.listed()[branch]["worktree"])

    def session(self, branch: str) -> str:
        """Return the session name of a branch."""
        return str(self.listed()[branch]["session"])

    def said(self) -> list[str]:
        """Return all texts that the model got, in order."""
        # Side requests of codex have no tools and are refused.
        return [text for request in self.scenario.turns() if request.status == 200 for text in request.said]

    def wait_told(self, text: str, count: int = 1) -> None:
        """Wait until the model got a text."""
        self.wait(lambda: self.heard_of(text) >= count, f"the model to be told {text[:60]!r}")

    def heard_of(self, text: str) -> int:
        """Return the number of times the model got a text, also within other text."""
        return sum(each.count(text) for each in self.said())

    def wait_request(self, holds: Callable[[Request], bool], what: str) -> None:
        """Wait until one of the requests meets a condition."""
        self.wait(lambda: any(map(holds, self.scenario.turns())), what)

    def wait_shown(self, branch: str, text: str) -> None:
        """Wait until the terminal of a branch shows a text."""
        self.wait(lambda: text in self.screen(self.session(branch)), f"{text!r} on the screen of {branch}")

    def press(self, branch: str, *keys: str) -> None:
        """Press keys in the terminal of a branch, as a person does."""
        self.tmux("send-keys", "-t", f"={self.session(branch)}:", *keys)

    def prompt(self, branch: str, text: str, wait: float = PATIENCE) -> dict[str, Any]:
        """Send a message to an agent. Return its last known state."""
        told: dict[str, Any] = json.loads(self.fleet.ok("prompt", branch, "--json", "--wait", str(wait), stdin=text))
        return told

    def message_state(self, key: str) -> str:
        """Return the state of the newest message to a task."""
        own = "select * from messages where task = ? and id not like '%/%' order by queued_at desc"
        row = self.rows(own, key)[0]
        moments = {"delivered": "delivered_at", "carried": "carried_at", "sent": "sent_at"}
        return next((state for state, column in moments.items() if row[column] is not None), "queued")

    def events(self, key: str) -> list[dict[str, Any]]:
        """Return the stored events of a task so far."""
        file = self.fleet.home / "tasks" / key / "events.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def texts(self, key: str) -> list[str]:
        """Return the stored texts of a task's agent."""
        return [str(event["text"]) for event in self.events(key) if event["kind"] == "assistant_text"]

    def used(self, key: str) -> list[int]:
        """Return the token counts of a task's last run."""
        run = self.runs(key)[-1]
        return [run[name] for name in USED]

    def clis(self) -> list[int]:
        """Return the process ids of the CLI itself."""
        agents = set(self.agents())
        names = {pid: [Path(os.fsdecode(word)).name for word in words[:2]] for pid, words in commands()}
        return [pid for pid in agents if self.cli in names.get(pid, ())]

    def supervisor(self) -> int:
        """Return the process id of the supervisor."""
        return int(self.status()["pid"])

    def wait(self, condition: Callable[[], object], what: str) -> None:
        """Wait until a condition holds."""
        wait_for(condition, what, self.describe, PATIENCE)

    def describe(self) -> str:
        """Return all facts that help to explain a failure, including the screens."""
        screens = [f"--- {name}\n{self.screen(name)}" for name in sorted(self.sessions())]
        asked = [str(each)[:300] for each in self.scenario.requests()]
        return "\n".join([super().describe(), *screens, *asked])

    def stop(self) -> None:
        """End everything and delete the files, because CLIs keep a lot."""
        super().stop()
        shutil.rmtree(self.folder.parent, ignore_errors=True)


Open = Callable[..., RealTerminals]


@pytest.fixture
def opened(network: ClosedNetwork, server: ModelServer, tmp_path: Path) -> Iterator[Open]:
    """Yield a function that creates a home whose agents are a real CLI in a terminal. The test ends them.

    The function takes the name of the CLI and the turns of its model.
    """
    made: list[RealTerminals] = []

    def open(cli: str, *turns: Turn, own: bool = True) -> RealTerminals:
        # Each conversation has its own turns, because codex also asks for a title.
        scenario = server.scenario(turns, name=cli, per_conversation=True)
        base = tmp_path / f"{cli}-{len(made)}"
        base.mkdir()
        made.append(RealTerminals(base, network, cli, scenario, own=own))
        return made[-1]

    yield open
    for each in made:
        each.stop()
        assert each.agents() == []
