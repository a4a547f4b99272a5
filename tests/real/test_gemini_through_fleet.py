"""The real gemini through the real supervisor: successful runs, and faults of its model."""

import json
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from model_server import Fault, ModelServer, Turn
from real.through_fleet import HELD, Real, RealFleet, was_told_to_wait
from supervised import wait_for

pytestmark = pytest.mark.soak("clis")
BEGIN, DONE = Turn(text="I begin.", shell="test -d . && echo fine"), Turn(text="All done.")
#: A text that can be found in everything that is stored, sent or shown.
WORDS = "the-words-of-the-task"
#: Gemini reports errors on stderr alone. A silent one is checked often, and one with only refusals is stopped soon.
WATCHFUL = ("watchdog.silence_seconds=20", "watchdog.limit_seconds=2")


PRICES = '\n[prices."gemini-*"]\ninput = 1\noutput = 10\ncache_read = 0.1\n'


def started(
    real: Real, server: ModelServer, *turns: Turn, settings: tuple[str, ...] = (), prices: str = ""
) -> tuple[RealFleet, str]:
    """Start a supervisor with one task, whose model follows these turns. Gemini has its default retries."""
    home = real("gemini", server.scenario(turns, name="gemini"))
    own = Path(home.fleet.env["GEMINI_CLI_HOME"]) / ".gemini" / "settings.json"
    wishes = json.loads(own.read_text())
    del wishes["general"]["maxAttempts"]
    own.write_text(json.dumps(wishes))
    home.set("limits.rate_limit_base_seconds=0.5", *settings)
    with (home.fleet.home / "runtime.toml").open("a") as file:
        file.write(prices)
    key = home.ask(WORDS)
    home.start()
    return home, key


def test_gemini_creates_files_and_its_usage_is_recorded(real: Real, server: ModelServer) -> None:
    shell = Turn(text="I begin.", shell="pwd > by-shell && echo fine")
    home, key = started(real, server, shell, Turn(write="by-tool", content="one\n"), DONE, prices=PRICES)
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("closed", 0)
    assert (home.fleet.cwd / "by-shell").read_text().strip() == str(home.fleet.cwd)
    assert (home.fleet.cwd / "by-tool").read_text() == "one\n"
    (run,) = home.runs(key)
    assert (run["ending"], run["reason"], run["tool_calls"], run["exit_status"]) == ("finished", "All done.", 2, 0)
    used = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    assert [run[name] for name in used] == [360, 90, 3000, 0]
    assert run["cost_usd"] == pytest.approx((360 * 1 + 90 * 10 + 3000 * 0.1) / 1_000_000)
    assert run["context_window"] == 1_048_576
    tools = ("tool_use", "tool_result")
    texts = ("assistant_text", "assistant_text")
    assert home.kinds(key) == ["session_started", *texts, *tools, *tools, *texts, "session_ended"]
    assert [event["tool_name"] for event in home.events(key)][3:7:2] == ["run_shell_command", "write_file"]
    sessions = Path(home.fleet.env["GEMINI_CLI_HOME"], ".gemini", "tmp").rglob(f"session-*{run['session'][:8]}*")
    assert run["session"] in next(sessions).read_text()


def test_context_of_gemini_is_marked_as_an_estimate_and_its_cost_computed(real: Real, server: ModelServer) -> None:
    settings = ("coders.gemini.context_limit=2000",)
    home, key = started(real, server, Turn(shell=f"echo {'x' * 400}; {HELD}"), DONE, settings=settings)
    home.wait_held()
    wait_for(lambda: home.runs(key)[0]["tool_calls"], "the call to be on record", home.describe)
    (shown,) = json.loads(home.fleet.ok("tasks", "--json"))
    assert shown["context_estimated"] is True
    assert shown["context_percent"] > 20
    assert "≈" in home.fleet.ok("tasks", COLUMNS="200")
    home.let_go()
    assert home.done(key)["status"] == "closed"
    (run,) = home.runs(key)
    assert (run["cost_basis"].partition(":")[0], run["context_window"]) == ("computed", 2000)
    assert run["cost_usd"] > 0
    assert run["context_peak"] > 500


def test_task_and_key_are_seen_nowhere_and_the_project_is_unchanged(real: Real, server: ModelServer) -> None:
    home, key = started(real, server, Turn(shell=f"echo key is $GEMINI_API_KEY; {HELD}"), DONE)
    home.wait_held()
    (request,) = home.scenario.turns()
    assert request.holds(WORDS)
    secrets = [WORDS, home.scenario.key]
    assert len(home.clis()) == 1
    assert [line for line in home.command_lines() if any(secret in line for secret in secrets)] == []
    home.let_go()
    assert home.done(key)["status"] == "closed"
    folder = home.fleet.home / "tasks" / key
    kept = (folder / "events.jsonl").read_text() + (folder / "log.jsonl").read_text()
    assert [secret for secret in secrets if secret in kept] == []
    assert "key is [redacted" in kept
    assert home.scenario.key not in "".join(json.dumps(line) for line in home.log_lines())
    assert sorted(path.name for path in home.fleet.cwd.iterdir()) == ["begun", "go"]


def test_short_wait_is_left_to_gemini_and_does_not_end_the_next_long_command(real: Real, server: ModelServer) -> None:
    refused = Turn(fault=Fault.RATE_LIMITED, retry_after=1)
    # The silence is longer than fleet needs to read old complaints and to act on them.
    home, key = started(real, server, refused, Turn(shell="sleep 18; test -d . && echo fine"), DONE, settings=WATCHFUL)
    assert home.done(key)["status"] == "closed"
    (run,) = home.runs(key)
    assert (run["ending"], run["reason"]) == ("finished", "All done.")
    assert [request.status for request in home.scenario.turns()] == [429, 200, 200]
    assert home.standing()[""]["strikes"] == 0


def test_fleet_waits_instead_of_a_gemini_that_would_retry_for_minutes(real: Real, server: ModelServer) -> None:
    endings = {Fault.RATE_LIMITED: "rate_limited", Fault.SERVER_ERROR: "overloaded", Fault.OVERLOADED: "overloaded"}
    # The silence that counts as a stall is longer than gemini takes to start on a busy machine.
    settings = ("watchdog.silence_seconds=60", "watchdog.limit_seconds=2", "limits.rate_limit_base_seconds=60")
    homes = {
        fault: started(real, server, BEGIN, Turn(fault=fault, retry_after=40), settings=settings) for fault in endings
    }
    for fault, (home, key) in homes.items():
        (run,) = home.ended(key)
        assert run["ending"] == endings[fault]
        assert " limit: Attempt " in run["reason"]
        assert "    at " not in run["reason"]
        wait_for(lambda home=home: home.standing()[""]["state"] == "slowed", "it to be slowed", home.describe)  # type: ignore[misc]
        task = home.task(key)
        assert (task["status"], task["failures"]) == ("open", 0)
        assert fault is not Fault.RATE_LIMITED or was_told_to_wait(run, timedelta(seconds=40))


def test_used_up_quota_parks_its_account_and_the_next_one_takes_over(real: Real, server: ModelServer) -> None:
    used_up = server.scenario([Turn(fault=Fault.LIMIT_REACHED, retry_after=3600)], name="used-up")
    home = real("gemini", server.scenario([BEGIN, DONE], name="fresh"))
    home.accounts(
        first={"GEMINI_API_KEY": used_up.key, "GOOGLE_GEMINI_BASE_URL": used_up.url("gemini")},
        second={"GEMINI_API_KEY": home.scenario.key},
    )
    key = home.ask()
    home.start()
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("closed", 0)
    first, second = home.runs(key)
    assert [(run["account"], run["ending"]) for run in (first, second)] == [
        ("first", "rate_limited"),
        ("second", "finished"),
    ]
    assert "daily quota" in first["reason"]
    assert [home.standing()[name]["state"] for name in ("first", "second")] == ["parked", "ready"]
    assert len(used_up.turns()) == 1


def test_refused_key_parks_the_account_and_fails_no_task(real: Real, server: ModelServer) -> None:
    home, key = started(real, server, Turn(fault=Fault.UNAUTHORIZED), BEGIN, DONE)
    (run,) = home.ended(key)
    assert (run["ending"], run["exit_status"]) == ("not_logged_in", 401 & 0xFF)
    assert "API key not valid" in run["reason"]
    wait_for(lambda: home.standing()[""]["state"] == "parked", "the account to be parked", home.describe)
    home.fleet.ok("accounts", "unpark", "gemini")
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("closed", 0)


def test_gemini_is_stopped_and_resumes_its_session_when_its_model_is_silent(real: Real, server: ModelServer) -> None:
    silent = [Turn(text="half of the answer", fault=fault) for fault in (Fault.HANG, Fault.STALL)]
    settings = ("watchdog.silence_seconds=20", "limits.retry_limit=3")
    home, key = started(real, server, BEGIN, *silent, DONE, settings=settings)
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("closed", 2)
    runs = home.runs(key)
    assert [run["ending"] for run in runs] == ["stalled", "stalled", "finished"]
    assert len({run["session"] for run in runs}) == 1
    assert home.scenario.turns()[-1].holds("I begin.")


def test_interrupted_stream_is_a_failure_that_the_next_run_repairs(real: Real, server: ModelServer) -> None:
    cut = Turn(text="half of the answer", fault=Fault.CUT)
    home, key = started(real, server, BEGIN, cut, DONE, settings=("limits.retry_limit=2",))
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("closed", 1)
    first, second = home.runs(key)
    assert [first["ending"], second["ending"]] == ["failed", "finished"]
    assert "terminated" in first["reason"]
    assert first["session"] == second["session"]


def test_task_starts_fresh_when_the_context_is_full(real: Real, server: ModelServer) -> None:
    home, key = started(real, server, BEGIN, Turn(fault=Fault.CONTEXT_FULL), BEGIN, DONE)
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("closed", 0)
    first, second = home.runs(key)
    assert [first["ending"], second["ending"]] == ["context_full", "finished"]
    assert "exceeds the maximum" in first["reason"]
    assert first["session"] != second["session"]
    assert WORDS in home.scenario.turns()[2].said[-1]
    assert not home.scenario.turns()[2].holds("I begin.")


def test_gemini_resumes_its_session_when_it_was_killed_during_a_command(real: Real, server: ModelServer) -> None:
    home, key = started(real, server, BEGIN, Turn(shell=HELD), BEGIN, DONE, settings=("limits.retry_limit=2",))
    home.wait_held()
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


def test_missing_session_costs_one_failure_and_the_next_run_starts_fresh(real: Real, server: ModelServer) -> None:
    home, key = started(real, server, BEGIN, Turn(shell=HELD), BEGIN, DONE, settings=("limits.retry_limit=3",))
    home.wait_held()
    shutil.rmtree(Path(home.fleet.env["GEMINI_CLI_HOME"]) / ".gemini" / "tmp")
    home.kill_cli()
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("closed", 2)
    first, second, third = home.runs(key)
    assert (second["session"], second["exit_status"]) == (first["session"], 42)
    assert "gemini does not know the session in this directory" in second["reason"]
    assert "chmod" not in second["reason"]  # from a warning at each start below a world-writable folder
    assert third["session"] != first["session"]


def test_message_interrupts_gemini_and_opens_its_next_run_in_the_same_session(real: Real, server: ModelServer) -> None:
    home, key = started(real, server, BEGIN, Turn(shell=HELD), BEGIN, DONE)
    home.wait_held()
    home.fleet.ok("prompt", key, "take-the-blue-one", "--wait", "0")
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("closed", 0)
    first, second = home.runs(key)
    assert [first["ending"], second["ending"]] == ["interrupted", "finished"]
    assert first["session"] == second["session"] != ""
    resumed = home.scenario.turns()[2]
    assert "take-the-blue-one" in resumed.said[-1]
    assert resumed.holds("I begin.")
    (message,) = home.rows("select * from messages")
    assert (message["run"], message["carried_at"] is None) == (second["id"], False)
