"""The real qwen, pi and copilot through the real supervisor: finished work, a limit, and a resumed session."""

from pathlib import Path

import pytest

from model_server import Fault, ModelServer, Turn
from real.through_fleet import HELD, Real, RealFleet
from supervised import wait_for

pytestmark = pytest.mark.soak("clis")
OTHERS = ("copilot", "pi", "qwen")
BEGIN, DONE = Turn(text="I begin.", shell="pwd > made && echo fine"), Turn(text="All done.")
#: A text that can be found in everything that is stored, sent or shown.
WORDS = "the-words-of-the-task"


def started(
    real: Real, server: ModelServer, cli: str, *turns: Turn, settings: tuple[str, ...] = ()
) -> tuple[RealFleet, str]:
    """Start a supervisor with one task, whose model follows these turns. Return the home and the task's id."""
    home = real(cli, server.scenario(turns, name=cli))
    home.set("limits.rate_limit_base_seconds=60", *settings)
    key = home.ask(WORDS)
    home.start()
    return home, key


@pytest.mark.parametrize("cli", OTHERS)
def test_coder_creates_a_file_and_its_usage_is_recorded(cli: str, real: Real, server: ModelServer) -> None:
    home, key = started(real, server, cli, BEGIN, DONE)
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("closed", 0)
    assert (home.fleet.cwd / "made").read_text().strip() == str(home.fleet.cwd)
    assert [path.name for path in home.fleet.cwd.iterdir()] == ["made"]
    (run,) = home.runs(key)
    assert (run["ending"], run["reason"], run["tool_calls"], run["exit_status"]) == ("finished", "All done.", 1, 0)
    used = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    assert [run[name] for name in used] == [240, 60, 2000, 0]
    assert run["context_peak"] >= 1120
    assert run["session"]
    kinds = home.kinds(key)
    assert (kinds[0], kinds.count("tool_use"), kinds.count("tool_result")) == ("session_started", 1, 1)
    assert "session_ended" in kinds


@pytest.mark.parametrize("cli", ["copilot", "pi"])
def test_long_refusal_slows_its_account_and_fails_no_task(cli: str, real: Real, server: ModelServer) -> None:
    home, key = started(real, server, cli, BEGIN, Turn(fault=Fault.RATE_LIMITED, retry_after=600))
    (run,) = home.ended(key)
    assert run["ending"] == "rate_limited"
    assert "Rate limit reached" in run["reason"]
    wait_for(lambda: home.standing()[""]["state"] == "slowed", "the account to be slowed", home.describe)
    task = home.task(key)
    assert (task["status"], task["failures"]) == ("open", 0)


def test_refused_key_parks_the_account_of_qwen_and_fails_no_task(real: Real, server: ModelServer) -> None:
    home, key = started(real, server, "qwen", BEGIN, Turn(fault=Fault.UNAUTHORIZED), DONE)
    (run,) = home.ended(key)
    assert run["ending"] == "not_logged_in"
    assert "Incorrect API key" in run["reason"]
    wait_for(lambda: home.standing()[""]["state"] == "parked", "the account to be parked", home.describe)
    home.fleet.ok("accounts", "unpark", "qwen")
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("closed", 0)


@pytest.mark.parametrize("cli", OTHERS)
def test_coder_resumes_its_session_when_it_was_killed_during_a_command(
    cli: str, real: Real, server: ModelServer
) -> None:
    turns = (Turn(text="I begin.", shell="test -d . && echo fine"), Turn(shell=HELD), BEGIN, DONE)
    home, key = started(real, server, cli, *turns, settings=("limits.retry_limit=2",))
    home.wait_held()
    secrets = [WORDS, home.scenario.key]
    assert [line for line in home.command_lines() if any(secret in line for secret in secrets)] == []
    if cli == "copilot":  # it stores the conversation late; if killed before, it does not know the session
        kept = Path(home.fleet.env["HOME"]) / ".copilot" / "session-state"
        wait_for(
            lambda: any("begun" in each.read_text() for each in kept.rglob("events.jsonl")), "its session to be kept"
        )
    home.kill_cli()
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("closed", 1)
    first, second = home.runs(key)
    assert [(run["ending"], run["exit_signal"]) for run in (first, second)] == [("failed", 9), ("finished", None)]
    assert first["session"] == second["session"] != ""
    resumed = home.scenario.turns()[2]
    assert resumed.holds(WORDS)
    assert resumed.holds("I begin.")
    assert home.agents() == []
