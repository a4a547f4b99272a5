"""The real claude through the real supervisor: successful runs, and faults of its model."""

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from model_server import NEARLY_FULL, Fault, ModelServer, Turn
from real.through_fleet import HELD, PATIENCE, Real, RealFleet, instant, was_told_to_wait
from supervised import wait_for

pytestmark = pytest.mark.soak("clis")
BEGIN, DONE = Turn(text="I begin.", shell="test -d . && echo fine"), Turn(text="All done.")
#: A text that can be found in everything that is stored, sent or shown.
WORDS = "the-words-of-the-task"
MINUTE = timedelta(minutes=1)


def a_subscription(key: str) -> dict[str, str]:
    """Return variables that make claude expect a plan with limits."""
    return {"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": key}


def started(real: Real, server: ModelServer, *turns: Turn, settings: tuple[str, ...] = ()) -> tuple[RealFleet, str]:
    """Start a supervisor with one task, whose model follows these turns. Return the home and the task's id."""
    home = real("claude", server.scenario(turns, name="claude"))
    home.set("limits.rate_limit_base_seconds=0.5", *settings)
    key = home.ask(WORDS)
    home.start()
    return home, key


def test_claude_creates_a_file_and_its_usage_is_recorded(real: Real, server: ModelServer) -> None:
    home, key = started(real, server, Turn(text="I begin.", shell="pwd > made && echo fine"), DONE)
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("closed", 0)
    assert (home.fleet.cwd / "made").read_text().strip() == str(home.fleet.cwd)
    (run,) = home.runs(key)
    assert (run["ending"], run["reason"], run["tool_calls"], run["exit_status"]) == ("finished", "All done.", 1, 0)
    used = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    assert [run[name] for name in used] == [200, 60, 2000, 40]
    assert (run["cost_usd"], run["context_peak"], run["context_window"]) == (0.00225, 1120, 200_000)
    assert home.kinds(key) == [
        *("session_started", "assistant_text", "tool_use", "tool_result", "assistant_text", "session_ended"),
    ]
    (transcript,) = (Path(home.fleet.env["CLAUDE_CONFIG_DIR"]) / "projects").rglob("*.jsonl")
    assert run["session"] == transcript.stem
    assert home.events(key)[2]["tool_name"] == "Bash"
    assert home.events(key)[3]["text"] == "fine"


def test_task_and_key_are_seen_nowhere_and_the_project_is_unchanged(real: Real, server: ModelServer) -> None:
    home, key = started(real, server, Turn(shell=f"echo key is $ANTHROPIC_API_KEY; {HELD}"), DONE)
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


def test_fleet_started_by_claude_does_not_pass_on_its_variables(real: Real, server: ModelServer) -> None:
    home = real("claude", server.scenario([Turn(shell=HELD), DONE], name="nested"))
    mark = "of-the-claude-that-started-fleet"
    names = ("CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_ENTRYPOINT")
    home.fleet.env |= {"CLAUDECODE": "1", **dict.fromkeys(names, mark)}
    key = home.ask()
    home.start()
    home.wait_held()
    environment = [Path(f"/proc/{pid}/environ").read_text().split("\0") for pid in home.clis()]
    assert len(environment) == 1
    assert [line for line in environment[0] if mark in line or line.startswith("CLAUDECODE=")] == []
    home.let_go()
    assert home.done(key)["status"] == "closed"
    assert home.runs(key)[0]["session"] != mark


@pytest.mark.parametrize("fault", [Fault.RATE_LIMITED, Fault.OVERLOADED, Fault.SERVER_ERROR, Fault.CUT])
def test_short_fault_is_left_to_claude(fault: Fault, real: Real, server: ModelServer) -> None:
    spoilt = Turn(text="half of it", fault=fault, retry_after=1)
    home, key = started(real, server, BEGIN, spoilt, DONE)
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("closed", 0)
    (run,) = home.runs(key)
    assert (run["ending"], run["reason"]) == ("finished", "All done.")
    limits = [event["rate_info"]["status"] for event in home.events(key) if event["rate_info"]]
    told = {Fault.RATE_LIMITED: ["rate"], Fault.OVERLOADED: ["overload"], Fault.SERVER_ERROR: ["overload"]}
    assert limits == told.get(fault, [])
    assert home.standing()[""]["state"] == "ready"


def test_refusal_without_an_end_slows_the_account_and_the_session_resumes(real: Real, server: ModelServer) -> None:
    # Claude gives up at once if it would have to wait for more than a minute. It does not report the time.
    refused = Turn(fault=Fault.RATE_LIMITED, retry_after=3600)
    home, key = started(real, server, BEGIN, refused, DONE)
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("closed", 0)
    first, second = home.runs(key)
    assert [first["ending"], second["ending"]] == ["rate_limited", "finished"]
    assert first["session"] == second["session"] != ""
    assert home.scenario.turns()[-1].holds("I begin.")
    # A request costs $0.001125 and reads 1000 tokens from the cache. Each run pays for its own requests, whatever
    # claude counts.
    assert [run["cost_basis"] for run in (first, second)] == ["reported"] * 2
    own = [0.001125 * run["cache_read_tokens"] / 1000 for run in (first, second)]
    assert [run["cost_usd"] for run in (first, second)] == pytest.approx(own, rel=0.01)
    assert first["cache_read_tokens"] == 1000
    assert home.standing()[""]["strikes"] == 0


def test_repeatedly_refused_account_is_parked_until_a_person_or_time_frees_it(real: Real, server: ModelServer) -> None:
    refused = Turn(fault=Fault.RATE_LIMITED, retry_after=3600)
    home, key = started(real, server, refused, refused, BEGIN, DONE, settings=("limits.rate_limit_retries=1",))
    assert [run["ending"] for run in home.ended(key, 2)] == ["rate_limited"] * 2
    wait_for(lambda: home.standing()[""]["state"] == "parked", "the account to be parked", home.describe)
    task = home.task(key)
    assert (task["status"], task["failures"]) == ("open", 0)
    home.fleet.ok("accounts", "unpark", "claude")
    assert home.done(key)["status"] == "closed"
    assert [run["ending"] for run in home.runs(key)] == ["rate_limited", "rate_limited", "finished"]


def test_fleet_waits_instead_of_a_claude_that_would_wait_for_long(real: Real, server: ModelServer) -> None:
    refused = Turn(fault=Fault.RATE_LIMITED, retry_after=50)
    home, key = started(real, server, refused, BEGIN, DONE, settings=("watchdog.limit_seconds=1",))
    (run,) = home.ended(key)
    assert run["ending"] == "rate_limited"
    assert was_told_to_wait(run, timedelta(seconds=50))
    home.fleet.ok("accounts", "unpark", "claude")
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("closed", 0)


def test_used_up_plan_parks_its_account_and_the_next_one_takes_over(real: Real, server: ModelServer) -> None:
    used_up = server.scenario([Turn(fault=Fault.LIMIT_REACHED, retry_after=3600)], name="used-up")
    home = real("claude", server.scenario([BEGIN, DONE], name="fresh"))
    home.fleet.env["TZ"] = "Asia/Tokyo"
    home.accounts(
        first=a_subscription(used_up.key) | {"ANTHROPIC_BASE_URL": used_up.url("anthropic")},
        second=a_subscription(home.scenario.key),
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
    assert first["session"] != second["session"]
    assert was_told_to_wait(first, 60 * MINUTE)
    told = [event["rate_info"]["resets_at"] for event in home.events(key) if event["rate_info"]]
    assert instant(first["resume_at"]).isoformat() in told, "the sentence claude says about it is rounded"
    standing = home.standing()
    assert (standing["first"]["state"], standing["second"]["state"]) == ("parked", "ready")
    assert abs(datetime.fromisoformat(standing["first"]["until"]) - instant(first["resume_at"])) < MINUTE


@pytest.mark.parametrize(
    ("fault", "ending", "requests"),
    [
        (Fault.SERVER_ERROR, "overloaded", 3),
        (Fault.OVERLOADED, "overloaded", 3),
        (Fault.UNAUTHORIZED, "not_logged_in", 3),
    ],
)
def test_lasting_fault_ends_the_run_soon_and_is_no_failure_of_the_task(
    fault: Fault, ending: str, requests: int, real: Real, server: ModelServer
) -> None:
    home, key = started(real, server, *[Turn(fault=fault)] * requests, BEGIN, DONE)
    (run, *_) = home.ended(key)
    assert run["ending"] == ending
    home.fleet.ok("accounts", "unpark", "claude")
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("closed", 0)
    assert [each["ending"] for each in home.runs(key)] == [ending, "finished"]


def test_claude_is_stopped_completely_when_its_model_is_silent(real: Real, server: ModelServer) -> None:
    home, key = started(real, server, Turn(fault=Fault.HANG), settings=("watchdog.silence_seconds=3",))
    home.scenario.wait_for(1, seconds=PATIENCE)
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("blocked", 1)
    assert home.runs(key)[0]["ending"] == "stalled"
    assert home.agents() == []


def test_claude_is_stopped_and_starts_fresh_when_its_context_is_nearly_full(real: Real, server: ModelServer) -> None:
    home, key = started(
        real, server, Turn(text="I begin.", shell=HELD, usage=NEARLY_FULL), Turn(shell="test -d . && echo on"), DONE
    )
    assert home.done(key)["status"] == "closed"
    first, second = home.runs(key)
    assert (first["ending"], first["context_peak"], second["ending"]) == ("context_full", 187_000, "finished")
    assert second["session"] not in ("", first["session"])
    asked = home.scenario.turns()[1]
    assert asked.holds(WORDS) and not asked.holds("I begin.")
    assert home.task(key)["failures"] == 0


def test_next_run_starts_fresh_when_a_prompt_is_too_long_for_the_model(real: Real, server: ModelServer) -> None:
    home, key = started(real, server, BEGIN, Turn(fault=Fault.CONTEXT_FULL), Turn(shell="test -d . && echo on"), DONE)
    assert home.done(key)["status"] == "closed"
    first, second = home.runs(key)
    assert (first["ending"], second["ending"]) == ("context_full", "finished")
    assert second["session"] not in ("", first["session"])
    asked = home.scenario.turns()[2]
    assert asked.holds(WORDS) and not asked.holds("I begin.")
    assert home.task(key)["failures"] == 0


@pytest.mark.parametrize("also_the_supervisor", [False, True])
def test_claude_resumes_its_session_when_it_was_killed_during_a_tool(
    also_the_supervisor: bool, real: Real, server: ModelServer
) -> None:
    turns = [Turn(text="I begin.", shell=HELD), Turn(shell="touch went-on"), DONE]
    home, key = started(real, server, *turns, settings=("limits.retry_limit=3",))
    home.wait_held()
    home.wait_kept("I begin.")
    if also_the_supervisor:
        home.kill()
    home.kill_cli()
    if also_the_supervisor:
        home.start()
    task = home.done(key)
    assert task["status"] == "closed"
    first, second = home.runs(key)
    assert (first["ending"], first["exit_signal"], second["ending"]) == ("failed", 9, "finished")
    assert first["session"] == second["session"] != ""
    asked = home.scenario.turns()[1]
    assert asked.holds("I begin.") and asked.holds("where this session stopped")
    assert (home.fleet.cwd / "went-on").exists()


def test_claude_survives_when_its_supervisor_is_killed(real: Real, server: ModelServer) -> None:
    home, key = started(real, server, Turn(shell=HELD), DONE)
    home.wait_held()
    home.kill()
    home.start()
    home.let_go()
    assert home.done(key)["status"] == "closed"
    (run,) = home.runs(key)
    assert (run["ending"], run["tool_calls"], run["exit_status"]) == ("finished", 1, 0)


def test_message_reaches_claude_while_it_works(real: Real, server: ModelServer) -> None:
    home, key = started(real, server, Turn(shell=HELD), DONE)
    home.wait_held()
    said = json.loads(home.fleet.ok("prompt", key, "use the other file", "--wait", "2", "--json"))
    assert said["way"] == "now"
    home.let_go()
    assert home.done(key)["status"] == "closed"
    (run,) = home.runs(key)
    assert run["ending"] == "finished"
    assert home.scenario.turns()[1].holds("use the other file")
    (message,) = home.rows("select * from messages")
    assert message["delivered_at"] >= message["sent_at"] > 0
    assert message["carried_at"] is None
    assert "delivered" in home.kinds(key)


def test_denied_tool_becomes_a_question_that_names_it(real: Real, server: ModelServer) -> None:
    home = real("claude", server.scenario([Turn(shell="touch made"), Turn(text="I may not.")], name="denied"))
    home.set("permissions=user")
    key = home.ask()
    home.start()
    assert home.done(key)["status"] == "blocked"
    (run,) = home.runs(key)
    assert (run["ending"], run["exit_status"]) == ("blocked", 0)
    (question,) = json.loads(home.fleet.ok("questions", "--json"))
    assert "Bash" in question["text"]
    assert not (home.fleet.cwd / "made").exists()
