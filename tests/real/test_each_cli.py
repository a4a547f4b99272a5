"""One test of each real CLI through the real supervisor: it works, fails, resumes its session and finishes.

The other tests of real CLIs belong to the soak part "clis".
"""

import pytest

from model_server import Fault, ModelServer, Turn
from real.terminals_through_fleet import Open, opened
from real.through_fleet import Real
from supervised import wait_for

__all__ = ["opened"]

#: A refusal that each CLI reports at once, and the ending of its run.
REFUSALS = {
    "claude": (Fault.RATE_LIMITED, "rate_limited"),
    "codex": (Fault.RATE_LIMITED, "rate_limited"),
    "copilot": (Fault.RATE_LIMITED, "rate_limited"),
    "gemini": (Fault.LIMIT_REACHED, "rate_limited"),
    "opencode": (Fault.UNAUTHORIZED, "not_logged_in"),
    "pi": (Fault.UNAUTHORIZED, "not_logged_in"),
    "qwen": (Fault.UNAUTHORIZED, "not_logged_in"),
}


@pytest.mark.parametrize("cli", REFUSALS)
def test_cli_resumes_its_session_and_finishes_when_it_was_refused(cli: str, real: Real, server: ModelServer) -> None:
    fault, ending = REFUSALS[cli]
    turns = [Turn(text="I begin.", shell="pwd > made"), Turn(fault=fault, retry_after=3600), Turn(text="All done.")]
    home = real(cli, server.scenario(turns, name=cli))
    key = home.ask("the-words-of-the-task")
    home.start()
    (refused,) = home.ended(key)
    assert (refused["ending"], refused["tool_calls"]) == (ending, 1)
    assert (home.fleet.cwd / "made").read_text().strip() == str(home.fleet.cwd)
    wait_for(lambda: home.standing()[""]["state"] != "ready", "its account to be held back", home.describe)
    home.fleet.ok("accounts", "unpark", cli)
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("closed", 0)
    first, second = home.runs(key)
    assert (second["ending"], second["reason"], second["exit_status"]) == ("finished", "All done.", 0)
    assert first["session"] == second["session"] != ""
    asked = home.scenario.turns()[2]
    assert asked.holds("the-words-of-the-task") and asked.holds("I begin.")
    # Copilot writes its tokens to a file that is read two seconds after the start, and this run is shorter.
    assert cli == "copilot" or (second["input_tokens"] > 0 and second["output_tokens"] > 0)


@pytest.mark.parametrize("cli", ["claude", "codex"])
def test_terminal_resumes_its_session_when_it_was_killed(cli: str, opened: Open) -> None:
    begin = Turn(text="I begin.", shell="test -d . && echo fine")
    home = opened(cli, begin, Turn(text="Well done."), Turn(text="I remember."))
    key = home.agent("x", "-p", "the first words")
    home.wait(lambda: home.texts(key) == ["I begin.", "Well done."], "the first answer to be stored")
    home.wait_listed("x", "idle")
    home.tmux("kill-session", "-t", "=ai_x")
    home.wait_status(key, "blocked")
    assert home.agents() == []
    home.fleet.ok("retry", "x")
    home.wait(lambda: len(home.runs(key)) == 2 and "ai_x" in home.sessions(), "the second run")
    assert home.prompt("x", "and more")["state"] in ("delivered", "carried")
    home.wait_request(lambda asked: asked.holds("and more") and asked.holds("Well done."), "one conversation")
    first, second = home.runs(key)
    assert first["session"] == second["session"] != ""
    used = {"claude": [100, 30, 1000, 20], "codex": [120, 30, 1000, 0]}[cli]
    home.wait(lambda: home.used(key) == used, "the new run's own tokens to be counted")
    assert home.texts(key) == ["I begin.", "Well done.", "I remember."]
