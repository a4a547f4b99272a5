"""Real CLIs at terminals of fleet's: a repository, a tmux of its own and the scripted model, in the closed network."""

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
#: The variable by which each finds the folder of an account.
FOLDER_VARIABLES = {"claude": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME"}
USED = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


class RealTerminals(Terminals):
    """A home whose coder is a real CLI that knows one scenario, and whose agents have terminals."""

    def __init__(self, base: Path, network: ClosedNetwork, cli: str, scenario: Scenario, *, own: bool = True) -> None:
        """`own`: its account has a folder of its own; else its login is the user's."""
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
        """What a million tokens of each kind cost."""
        self._add('[prices."*"]\n' + "\n".join(f"{kind} = {price}" for kind, price in dollars.items()))

    def _add(self, settings: str) -> None:
        with (self.fleet.home / "runtime.toml").open("a") as file:
            file.write(f"\n{settings}\n")

    def agent(self, branch: str, *argv: str) -> str:
        """An agent on a branch; the id of its task."""
        return str(self.told("create", branch, *argv)["task"])

    def settings_of_the_user(self) -> list[Path]:
        """The files in which the CLI keeps what the user told it."""
        return [path for path in (self.folder.parent / ".claude.json", self.folder / "config.toml") if path.exists()]

    def worktree(self, branch: str) -> Path:
        """Where the agent of a branch works."""
        return Path(self.listed()[branch]["worktree"])

    def session(self, branch: str) -> str:
        """The name of the session of a branch."""
        return str(self.listed()[branch]["session"])

    def said(self) -> list[str]:
        """Everything that the model was told, each text by itself, in the order it came."""
        # What codex asks beside the work has no tools, and is refused.
        return [text for request in self.scenario.turns() if request.status == 200 for text in request.said]

    def wait_told(self, text: str, count: int = 1) -> None:
        """Wait until the model was told something."""
        self.wait(lambda: self.heard_of(text) >= count, f"the model to be told {text[:60]!r}")

    def heard_of(self, text: str) -> int:
        """How often the model was told something, among other words perhaps."""
        return sum(each.count(text) for each in self.said())

    def wait_request(self, holds: Callable[[Request], bool], what: str) -> None:
        """Wait until one of the requests is so."""
        self.wait(lambda: any(map(holds, self.scenario.turns())), what)

    def wait_shown(self, branch: str, text: str) -> None:
        """Wait until the terminal of a branch shows something."""
        self.wait(lambda: text in self.screen(self.session(branch)), f"{text!r} on the screen of {branch}")

    def press(self, branch: str, *keys: str) -> None:
        """What a person presses in the terminal of a branch."""
        self.tmux("send-keys", "-t", f"={self.session(branch)}:", *keys)

    def prompt(self, branch: str, text: str, wait: float = PATIENCE) -> dict[str, Any]:
        """Tell an agent something; what is known of its way in the end."""
        told: dict[str, Any] = json.loads(self.fleet.ok("prompt", branch, "--json", "--wait", str(wait), stdin=text))
        return told

    def message_state(self, key: str) -> str:
        """How far the newest message to a task came."""
        own = "select * from messages where task = ? and id not like '%/%' order by queued_at desc"
        row = self.rows(own, key)[0]
        moments = {"delivered": "delivered_at", "carried": "carried_at", "sent": "sent_at"}
        return next((state for state, column in moments.items() if row[column] is not None), "queued")

    def events(self, key: str) -> list[dict[str, Any]]:
        """What was kept of what its agent did."""
        text = (self.fleet.home / "tasks" / key / "events.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def texts(self, key: str) -> list[str]:
        """What its agent said, as it was kept."""
        return [str(event["text"]) for event in self.events(key) if event["kind"] == "assistant_text"]

    def used(self, key: str) -> list[int]:
        """The tokens of a task's last run."""
        run = self.runs(key)[-1]
        return [run[name] for name in USED]

    def clis(self) -> list[int]:
        """The processes of the CLI itself."""
        agents = set(self.agents())
        names = {pid: [Path(os.fsdecode(word)).name for word in words[:2]] for pid, words in commands()}
        return [pid for pid in agents if self.cli in names.get(pid, ())]

    def supervisor(self) -> int:
        """The process that follows the agents."""
        return int(self.status()["pid"])

    def wait(self, condition: Callable[[], object], what: str) -> None:
        """Look until it is so."""
        wait_for(condition, what, self.describe, PATIENCE)

    def describe(self) -> str:
        """All that helps to see why: also what is on the screens."""
        screens = [f"--- {name}\n{self.screen(name)}" for name in sorted(self.sessions())]
        asked = [str(each)[:300] for each in self.scenario.requests()]
        return "\n".join([super().describe(), *screens, *asked])

    def stop(self) -> None:
        """End all of it; CLIs keep a lot."""
        super().stop()
        shutil.rmtree(self.folder.parent, ignore_errors=True)


Open = Callable[..., RealTerminals]


@pytest.fixture
def opened(network: ClosedNetwork, server: ModelServer, tmp_path: Path) -> Iterator[Open]:
    """Return a function that makes a home whose agents are a real CLI at a terminal. The test ends what they started.

    The function takes the name of the CLI and the turns of its model.
    """
    made: list[RealTerminals] = []

    def open(cli: str, *turns: Turn, own: bool = True) -> RealTerminals:
        # Each conversation has the turns to itself: codex asks for a title beside the work.
        scenario = server.scenario(turns, name=cli, per_conversation=True)
        base = tmp_path / f"{cli}-{len(made)}"
        base.mkdir()
        made.append(RealTerminals(base, network, cli, scenario, own=own))
        return made[-1]

    yield open
    for each in made:
        each.stop()
        assert each.agents() == []
