"""Real CLIs run by the real supervisor, both inside the closed network, against the scripted model."""

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
#: A command that announces its start and then waits for permission to end.
HELD = "touch begun; while [ ! -e go ]; do sleep 0.05; done; echo went-on"


class RealFleet(Supervised):
    """A home whose coder is a real CLI with one scenario, and with bounded times."""

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
        """Create a task in a directory. Return its id."""
        made = json.loads(self.fleet.ok("bd", "create", title, *argv, "--cwd", str(cwd or self.fleet.cwd), "--json"))
        return str(made["id"])

    def ended(self, key: str, count: int = 1, patience: float = PATIENCE) -> list[dict[str, Any]]:
        """Wait until this many runs of the task have ended. Return the runs."""
        wait_for(
            lambda: len([run for run in self.runs(key) if run["ended_at"]]) >= count,
            f"{count} runs of {key} to end",
            self.describe,
            patience,
        )
        return self.runs(key)

    def done(self, key: str, *statuses: str) -> dict[str, Any]:
        """Wait until the task is closed or blocked. Return the task."""
        return self.wait_status(key, *(statuses or ("closed", "blocked")), patience=PATIENCE)

    def events(self, key: str) -> list[dict[str, Any]]:
        """Return the stored events of a task."""
        text = (self.fleet.home / "tasks" / key / "events.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def kinds(self, key: str) -> list[str]:
        """Return the kinds of a task's events, in order."""
        return [event["kind"] for event in self.events(key)]

    def accounts(self, **own: dict[str, str]) -> None:
        """Add accounts of the coder in this order, each with its own variables and without `config_dir`."""
        with (self.fleet.home / "runtime.toml").open("a") as settings:
            for name, env in own.items():
                settings.write(f'\n[[accounts]]\nname = "{name}"\ncoder = "{self.cli}"\n')
                settings.write(f'config_dir = "{env.pop("config_dir")}"\n' if "config_dir" in env else "")
                pairs = ", ".join(f'{variable} = "{value}"' for variable, value in env.items())
                settings.write(f"env = {{ {pairs} }}\n")

    def standing(self) -> dict[str, dict[str, Any]]:
        """Return the output of `fleet accounts` for each account, by name."""
        return {str(each["name"]): each for each in json.loads(self.fleet.ok("accounts", "--json"))}

    def wait_held(self, cwd: Path | None = None) -> None:
        """Wait until the agent runs the command HELD."""
        begun = (cwd or self.fleet.cwd) / "begun"
        wait_for(begun.exists, "the agent's command to run", self.describe, PATIENCE)

    def wait_kept(self, words: str) -> None:
        """Wait until a file of the CLI contains these words. The CLI writes a message to disk a moment later."""
        home = Path(self.fleet.env["HOME"])
        wait_for(
            lambda: any(words.encode() in contents(path) for path in home.rglob("*")),
            f"{words!r} in its session",
            self.describe,
            PATIENCE,
        )

    def let_go(self, cwd: Path | None = None) -> None:
        """Let the command HELD end."""
        ((cwd or self.fleet.cwd) / "go").touch()

    def clis(self) -> list[int]:
        """Return the processes of the CLI itself, without its children."""
        agents = set(self.agents())
        return [pid for pid, words in commands() if pid in agents and self._is_cli(words)]

    def kill_cli(self) -> None:
        """Kill the CLI with SIGKILL, whatever it is doing."""
        found = self.clis()
        assert found
        for pid in found:
            with suppress(ProcessLookupError):  # the end of one may end others
                os.kill(pid, signal.SIGKILL)

    def _is_cli(self, words: list[bytes]) -> bool:
        return any(Path(os.fsdecode(word)).name == self.cli for word in words[:2])

    def describe(self) -> str:
        """Return all facts that help to explain a failure, including the CLI's stderr."""
        complaints = [
            path.read_text(errors="replace")[-1500:] for path in self.fleet.home.glob("tasks/*/runs/*/stderr")
        ]
        return "\n".join([super().describe(), *complaints, str([str(each)[:300] for each in self.scenario.requests()])])

    def clear(self) -> None:
        """Delete the files of the CLI, because CLIs keep a lot."""
        shutil.rmtree(self.fleet.env["HOME"], ignore_errors=True)


def contents(path: Path) -> bytes:
    """Return the content of a file, or b"" if it is missing or no regular file."""
    try:
        return path.read_bytes() if path.is_file() else b""
    except OSError:
        return b""


def instant(microseconds: int) -> datetime:
    """Return the time of a database timestamp."""
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC)


def was_told_to_wait(run: dict[str, Any], wait: timedelta, rounding: timedelta = timedelta(seconds=2)) -> bool:
    """Return True if `resume_at` is this wait after some moment of the run, however long the run took."""
    first, told, last = (instant(run[name]) for name in ("started_at", "resume_at", "ended_at"))
    return first - rounding <= told - wait <= last + rounding


Real = Callable[[str, Scenario], RealFleet]
