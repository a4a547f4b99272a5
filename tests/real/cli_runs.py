"""Runs of the real CLIs inside the closed network, each with its own home."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

from model_server import ModelServer, Scenario, Turn
from model_server.network import ClosedNetwork
from needs import require
from real.cli_setups import ARGVS, PLACE, cli_env

PROMPT = "make it so"
PATIENCE = 120.0


class Ran(NamedTuple):
    """The end of a run."""

    code: int
    events: list[dict[str, Any]]
    err: str
    seconds: float


def program(cli: str) -> Path:
    """Return the path of a CLI. The test is skipped if the CLI is missing."""
    path = PLACE / "bin" / cli
    require(path.exists(), f"the real {cli}")
    return path


def start(
    network: ClosedNetwork, cli: str, scenario: Scenario, cwd: Path, *more: str, **env: str
) -> "subprocess.Popen[bytes]":
    """Start a CLI inside the closed network, with a home beside `cwd`. Its stdin takes the prompt."""
    home = cwd.with_name(f"{cwd.name}-home")
    (home / "tmp").mkdir(parents=True, exist_ok=True)
    setup = cli_env(cli, scenario, home)
    for path, text in setup.files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    argv = network.enter(str(program(cli)), *ARGVS[cli], *more)
    pipe = subprocess.PIPE
    return subprocess.Popen(
        argv, stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, env=setup.env | env, start_new_session=True
    )


def run(network: ClosedNetwork, cli: str, scenario: Scenario, cwd: Path, *more: str, **env: str) -> Ran:
    """Run a CLI to its end, for at most two minutes. Keyword arguments are environment variables."""
    began = time.monotonic()
    process = start(network, cli, scenario, cwd, *more, **env)
    try:
        out, err = process.communicate(PROMPT.encode(), timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        kill(process)
        out, err = process.communicate()
        raise AssertionError(f"{cli} did not end: {out!r} {err!r} {scenario.requests()}") from None
    return Ran(process.returncode, read_events(out), err.decode(errors="replace"), time.monotonic() - began)


def follow_a_script(network: ClosedNetwork, cli: str, server: ModelServer, work: Path) -> None:
    """Assert that a CLI follows the scripted model in the right directory and reports success."""
    # The tools of qwen and copilot take no other path.
    path = str(work / "by-tool") if cli in ("copilot", "qwen") else "by-tool"
    shell = Turn(text="Working.", shell="pwd > by-shell && echo said-by-the-tool")
    scenario = server.scenario([shell, Turn(write=path, content="one\ntwo\n"), Turn(text="All done.")], name=cli)
    ran = run(network, cli, scenario, work)
    assert (ran.code, ended_well(cli, ran.events[-1])) == (0, True), ran
    assert (work / "by-shell").read_text().strip() == str(work)
    assert (work / "by-tool").read_text() == "one\ntwo\n"
    asked = scenario.turns()
    assert [request.turn for request in asked] == [0, 1, 2]
    assert PROMPT in asked[0].said[-1]
    assert "said-by-the-tool" in "".join(asked[1].said)
    assert PROMPT not in asked[1].said


def ended_well(cli: str, last: dict[str, Any]) -> bool:
    """Return True if the last event of a CLI reports a successful end of its run."""
    said: dict[str, bool] = {
        "claude": last["type"] == "result" and last.get("is_error") is False,
        "codex": last["type"] == "turn.completed",
        "copilot": last["type"] == "result" and last.get("exitCode") == 0,
        "gemini": last["type"] == "result" and last.get("status") == "success",
        # Opencode has no last word. A stop step that no other step follows is the end.
        "opencode": last["type"] == "step_finish" and last["part"]["reason"] == "stop",
        "pi": last["type"] == "agent_end" and last["messages"][-1].get("stopReason") == "stop",
        "qwen": last["type"] == "result" and last.get("is_error") is False,
    }
    return said[cli]


def kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a CLI and its process group, unless the CLI has ended."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def read_events(out: bytes) -> list[dict[str, Any]]:
    """Return the JSON objects that a CLI printed, one per line."""
    lines = out.decode(errors="replace").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]
