"""Nine traps of real CLIs for their supervisor. Each test provokes one, and fleet must handle it."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from model_server import Fault, ModelServer, Turn
from real.through_fleet import HELD, PATIENCE, Real, RealFleet
from supervised import commands

pytestmark = pytest.mark.soak("clis")
ALL = ("claude", "codex", "gemini", "opencode")
BEGIN, DONE = Turn(text="I begin.", shell="test -d . && echo fine"), Turn(text="All done.")
#: claude still prints a last word about a request that has just begun, and none about one that hangs.
HANGING_SECONDS = 1.5


def started(real: Real, server: ModelServer, cli: str, *turns: Turn) -> tuple[RealFleet, str]:
    """Start a supervisor with one task, whose model follows these turns. Return the home and the task's id."""
    home = real(cli, server.scenario(turns, name=cli))
    key = home.ask()
    home.start()
    return home, key


def printed(home: RealFleet, key: str) -> list[dict[str, Any]]:
    """Return the events that the CLI itself printed in the first run."""
    lines = (home.fleet.home / "tasks" / key / "runs" / "1" / "stdout").read_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def tools(home: RealFleet) -> list[int]:
    """Return the processes of the command HELD, without the CLI and the shim."""
    agents = set(home.agents())
    return [pid for pid, words in commands() if pid in agents and b"begun" in b" ".join(words) and b"bash" in words[0]]


@pytest.mark.parametrize(("cli", "step"), [("claude", signal.SIGINT), ("gemini", signal.SIGTERM)])
def test_exit_code_0_is_not_success(cli: str, step: signal.Signals, real: Real, server: ModelServer) -> None:
    home, key = started(real, server, cli, Turn(fault=Fault.HANG), BEGIN, DONE)
    home.scenario.wait_for(1, seconds=PATIENCE)
    time.sleep(HANGING_SECONDS)
    for pid in home.clis():
        os.kill(pid, step)
    first = home.ended(key)[0]
    assert (first["exit_status"], first["exit_signal"], first["result_at"]) == (0, None, None)
    assert first["ending"] == "incomplete"
    assert home.done(key)["status"] == "closed"
    assert [run["ending"] for run in home.runs(key)] == ["incomplete", "finished"]


def test_success_reported_by_claude_can_be_an_error(real: Real, server: ModelServer) -> None:
    home, key = started(real, server, "claude", BEGIN, Turn(tool="a tool that nobody offers"))
    assert home.done(key)["status"] == "blocked"
    last = printed(home, key)[-1]
    assert (last["type"], last["subtype"], last["is_error"]) == ("result", "success", True)
    (run,) = home.runs(key)
    assert (run["ending"], run["tool_calls"]) == ("failed", 1)


def test_error_of_codex_is_not_its_end(real: Real, server: ModelServer) -> None:
    home = real("codex", server.scenario([BEGIN, Turn(fault=Fault.SERVER_ERROR), DONE], name="codex"))
    config = Path(home.fleet.env["CODEX_HOME"]) / "config.toml"
    config.write_text(config.read_text().replace("stream_max_retries = 0", "stream_max_retries = 2"))
    home.set("model=a-model-that-codex-does-not-know")
    key = home.ask()
    home.start()
    assert home.done(key)["status"] == "closed"
    said = printed(home, key)
    assert "error" in [each["type"] for each in said]
    assert "error" in [each["item"]["type"] for each in said if "item" in each]
    assert home.kinds(key).count("session_ended") == 1
    (run,) = home.runs(key)
    assert (run["ending"], run["reason"]) == ("finished", "All done.")


@pytest.mark.parametrize("cli", ["claude", "codex", "gemini"])
def test_tool_in_its_own_process_session_does_not_outlive_its_cli(cli: str, real: Real, server: ModelServer) -> None:
    home, key = started(real, server, cli, Turn(shell=HELD), DONE)
    home.wait_held()
    cli_groups = {os.getpgid(pid) for pid in home.clis()}
    assert cli_groups and not cli_groups & {os.getpgid(pid) for pid in tools(home)}
    assert tools(home)
    home.kill_cli()
    assert home.done(key)["status"] == "blocked"
    assert tools(home) == home.agents() == []


@pytest.mark.parametrize("cli", ALL)
def test_each_cli_is_stopped_by_a_signal_it_handles(cli: str, real: Real, server: ModelServer) -> None:
    home = real(cli, server.scenario([Turn(shell=HELD), DONE], name=cli))
    home.set("watchdog.stop_grace_seconds=60")  # a busy machine must not cause a kill
    key = home.ask()
    home.start()
    home.wait_held()
    home.fleet.ok("kill", key)
    home.done(key, "blocked")
    (run,) = home.runs(key)
    assert run["ending"] == "cancelled"
    assert run["exit_signal"] != signal.SIGKILL
    assert home.agents() == []


@pytest.mark.parametrize("cli", ALL)
def test_cli_resumes_its_session_when_it_was_killed_during_a_tool(cli: str, real: Real, server: ModelServer) -> None:
    home = real(cli, server.scenario([Turn(text="I begin.", shell=HELD), BEGIN, DONE], name=cli))
    home.set("limits.retry_limit=2")
    key = home.ask()
    home.start()
    home.wait_held()
    home.wait_kept("I begin.")
    home.kill_cli()
    assert home.done(key)["status"] == "closed"
    first, second = home.runs(key)
    assert first["session"] == second["session"] != ""
    assert home.scenario.turns()[1].holds("I begin.")


@pytest.mark.parametrize("cli", ["claude", "codex"])
def test_prompt_may_be_longer_than_any_argument(cli: str, real: Real, server: ModelServer) -> None:
    home = real(cli, server.scenario([BEGIN, DONE], name=cli))
    long = home.fleet.user / "long"
    long.write_text("all work and no play\n" * 19_000 + "THE-VERY-END")
    key = home.ask("long", "--body-file", str(long))
    home.start()
    assert home.done(key)["status"] == "closed"
    asked = home.scenario.turns()[0]
    assert asked.holds("THE-VERY-END") and len(asked.text) > 399_000


@pytest.mark.parametrize("cli", ["claude", "codex"])
def test_no_cli_waits_for_more_on_stdin(cli: str, real: Real, server: ModelServer) -> None:
    home, key = started(real, server, cli, BEGIN, DONE)
    assert home.done(key)["status"] == "closed"
    (run,) = home.runs(key)
    assert (run["ending"], run["exit_status"]) == ("finished", 0)
    assert not home.scenario.turns()[0].holds("<stdin>")
    prompts = [words for words in home.scenario.turns()[0].said if "You have been given the task" in words]
    assert len(prompts) == 1


@pytest.mark.parametrize("cli", ["claude", "codex", "gemini"])
def test_sum_of_tokens_is_not_the_context_size(cli: str, real: Real, server: ModelServer) -> None:
    home, key = started(real, server, cli, BEGIN, BEGIN, BEGIN, DONE)
    assert home.done(key)["status"] == "closed"
    (run,) = home.runs(key)
    used = run["input_tokens"] + run["cache_read_tokens"] + run["cache_write_tokens"]
    assert used == 4 * 1_120
    assert 0 < run["context_peak"] < used
    if cli != "gemini":  # gemini gives only an estimate
        assert run["context_peak"] in (1_120, 1_150)
