"""A real CLI run by the real supervisor, both inside the closed network, against the scripted model."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from model_server import Scenario
from model_server.network import ClosedNetwork
from program import Program
from real.cli_runs import program
from real.cli_setups import cli_env
from supervised import Supervised, commands, wait_for

#: A CLI starts slowly on a busy machine, and some of them are slow anywhere.
PATIENCE = 150.0
MODELS = {
    "claude": "claude-sonnet-4-5",
    "codex": "gpt-5.5",
    "copilot": "scripted",
    "gemini": "gemini-2.5-flash",
    "opencode": "scripted/scripted",
    "pi": "scripted/scripted",
    "qwen": "scripted",
}
#: A command that says that it runs, and then waits to be let go.
HELD = "touch begun; while [ ! -e go ]; do sleep 0.05; done; echo went-on"


class RealFleet(Supervised):
    """A home whose coder is a real CLI that knows one scenario; what it may cost in time is bounded."""

    def __init__(self, base: Path, network: ClosedNetwork, cli: str, scenario: Scenario) -> None:
        self.cli, self.scenario = cli, scenario
        program(cli)
        fleet = Program(base)
        setup = cli_env(cli, scenario, base / "cli-home")
        (base / "cli-home" / "tmp").mkdir(parents=True)
        for path, text in setup.files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        fleet.env = setup.env | {"FLEET_HOME": str(fleet.home)}
        fleet.argv = network.enter(*fleet.argv)
        self.fleet = fleet
        self.audit = fleet.user / "audit"
        self.audit.touch()
        self.process = None
        self.seed = 0
        fleet.ok("init", "--permissions", "skip")
        self.set(
            *(f"coder={cli}", f"model={MODELS[cli]}", "max_concurrent=3", "supervisor.claim_seconds=10"),
            *("supervisor.min_free_disk_mb=1", "supervisor.min_free_memory_mb=1", "limits.retry_limit=1"),
            "agent.pass_env=SCRIPTED_KEY,OPENCODE_CONFIG_CONTENT",
        )

    def ask(self, title: str = "make it so", *argv: str, cwd: Path | None = None) -> str:
        """A task in a directory; its id."""
        made = json.loads(self.fleet.ok("bd", "create", title, *argv, "--cwd", str(cwd or self.fleet.cwd), "--json"))
        return str(made["id"])

    def ended(self, key: str, count: int = 1, patience: float = PATIENCE) -> list[dict[str, Any]]:
        """The runs of a task once so many of them are over."""
        wait_for(
            lambda: len([run for run in self.runs(key) if run["ended_at"]]) >= count,
            f"{count} runs of {key} to end",
            self.describe,
            patience,
        )
        return self.runs(key)

    def done(self, key: str, *statuses: str) -> dict[str, Any]:
        """The task once it is over."""
        return self.wait_status(key, *(statuses or ("closed", "blocked")), patience=PATIENCE)

    def events(self, key: str) -> list[dict[str, Any]]:
        """What was kept of its stream."""
        text = (self.fleet.home / "tasks" / key / "events.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def kinds(self, key: str) -> list[str]:
        """What its events were about, in order."""
        return [event["kind"] for event in self.events(key)]

    def accounts(self, **own: dict[str, str]) -> None:
        """Accounts of the coder, used in this order, each with variables of its own; `config_dir` is none of these."""
        with (self.fleet.home / "runtime.toml").open("a") as settings:
            for name, env in own.items():
                settings.write(f'\n[[accounts]]\nname = "{name}"\ncoder = "{self.cli}"\n')
                settings.write(f'config_dir = "{env.pop("config_dir")}"\n' if "config_dir" in env else "")
                pairs = ", ".join(f'{variable} = "{value}"' for variable, value in env.items())
                settings.write(f"env = {{ {pairs} }}\n")

    def standing(self) -> dict[str, dict[str, Any]]:
        """What `fleet accounts` says of each, by name."""
        return {str(each["name"]): each for each in json.loads(self.fleet.ok("accounts", "--json"))}

    def wait_held(self, cwd: Path | None = None) -> None:
        """Wait until the agent runs the command HELD."""
        begun = (cwd or self.fleet.cwd) / "begun"
        wait_for(begun.exists, "the agent's command to run", self.describe, PATIENCE)

    def wait_kept(self, words: str) -> None:
        """Wait until a file of the CLI's own holds these words: what it was told is there a moment later."""
        home = Path(self.fleet.env["HOME"])
        wait_for(
            lambda: any(words.encode() in contents(path) for path in home.rglob("*")),
            f"{words!r} in its session",
            self.describe,
            PATIENCE,
        )

    def let_go(self, cwd: Path | None = None) -> None:
        """Have that command end."""
        ((cwd or self.fleet.cwd) / "go").touch()

    def clis(self) -> list[int]:
        """The processes of the CLI itself, without what it started."""
        agents = set(self.agents())
        return [pid for pid, words in commands() if pid in agents and self._is_cli(words)]

    def kill_cli(self) -> None:
        """kill -9 of the CLI, whatever it was doing."""
        found = self.clis()
        assert found
        for pid in found:
            with suppress(ProcessLookupError):  # the end of one is the end of others
                os.kill(pid, signal.SIGKILL)

    def _is_cli(self, words: list[bytes]) -> bool:
        return any(Path(os.fsdecode(word)).name == self.cli for word in words[:2])

    def describe(self) -> str:
        """All that helps to see why: also what the CLI itself complained."""
        complaints = [
            path.read_text(errors="replace")[-1500:] for path in self.fleet.home.glob("tasks/*/runs/*/stderr")
        ]
        return "\n".join([super().describe(), *complaints, str([str(each)[:300] for each in self.scenario.requests()])])

    def clear(self) -> None:
        """CLIs keep a lot."""
        shutil.rmtree(self.fleet.env["HOME"], ignore_errors=True)


def contents(path: Path) -> bytes:
    """What is in a file; nothing for what is no file, or no more."""
    try:
        return path.read_bytes() if path.is_file() else b""
    except OSError:
        return b""


def instant(microseconds: int) -> datetime:
    """A moment as the database has it."""
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC)


def was_told_to_wait(run: dict[str, Any], wait: timedelta, rounding: timedelta = timedelta(seconds=2)) -> bool:
    """Return True if `resume_at` is this wait after some moment of the run, however long the run took."""
    first, told, last = (instant(run[name]) for name in ("started_at", "resume_at", "ended_at"))
    return first - rounding <= told - wait <= last + rounding


Real = Callable[[str, Scenario], RealFleet]
