"""The real codex through the real supervisor: successful runs, and faults of its model."""

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from model_server import NEARLY_FULL, Fault, ModelServer, Turn
from real.cli_setups import cli_env
from real.through_fleet import HELD, PATIENCE, Real, RealFleet, instant, was_told_to_wait
from supervised import wait_for

pytestmark = pytest.mark.soak("clis")
BEGIN, DONE = Turn(text="I begin.", shell="test -d . && echo fine"), Turn(text="All done.")
#: A text that can be found in everything that is stored, sent or shown.
WORDS = "the-words-of-the-task"
MINUTE = timedelta(minutes=1)
USED = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


def started(
    real: Real, server: ModelServer, *turns: Turn, settings: tuple[str, ...] = (), retries: int = 0
) -> tuple[RealFleet, str]:
    """Start a supervisor with one task, whose model follows these turns. Codex retries this often."""
    home = real("codex", server.scenario(turns, name="codex"))
    home.set("limits.rate_limit_base_seconds=0.5", *settings)
    config = Path(home.fleet.env["CODEX_HOME"]) / "config.toml"
    config.write_text(config.read_text().replace("stream_max_retries = 0", f"stream_max_retries = {retries}"))
    key = home.ask(WORDS)
    home.start()
    return home, key


def test_codex_creates_a_file_and_its_usage_is_recorded(real: Real, server: ModelServer) -> None:
    home, key = started(real, server, Turn(text="I begin.", shell="pwd > made && echo fine"), DONE)
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("closed", 0)
    assert (home.fleet.cwd / "made").read_text().strip() == str(home.fleet.cwd)
    (run,) = home.runs(key)
    assert (run["ending"], run["reason"], run["tool_calls"], run["exit_status"]) == ("finished", "All done.", 1, 0)
    assert [run[name] for name in USED] == [240, 60, 2000, 0]
    assert (run["context_peak"], run["context_window"]) == (1150, 258_400)
    # 240 at 5, 60 at 30 and 2000 cached at 0.5 dollars a million, by the price table.
    assert (run["cost_usd"], run["cost_basis"].partition(":")[0]) == (0.004, "computed")
    kinds = [kind for kind in home.kinds(key) if kind != "usage"]
    assert kinds == [
        *("session_started", "assistant_text", "tool_use", "tool_result", "assistant_text", "session_ended"),
    ]
    (rollout,) = (Path(home.fleet.env["CODEX_HOME"]) / "sessions").rglob("*.jsonl")
    assert rollout.stem.endswith(run["session"]) and run["session"]


def test_cost_of_a_run_follows_from_the_prices_in_the_settings(real: Real, server: ModelServer) -> None:
    prices = ('prices."gpt-5*".input=10', 'prices."gpt-5*".output=100', 'prices."gpt-5*".cache_read=1')
    home, key = started(real, server, BEGIN, DONE, settings=prices)
    assert home.done(key)["status"] == "closed"
    (run,) = home.runs(key)
    assert run["cost_usd"] == pytest.approx((240 * 10 + 60 * 100 + 2000 * 1) / 1_000_000)


def test_codex_starts_a_new_session_when_it_only_claims_to_be_done(real: Real, server: ModelServer) -> None:
    home, key = started(real, server, Turn(text="It is done."), BEGIN, DONE)
    assert home.done(key)["status"] == "closed"
    first, second = home.runs(key)
    assert (first["finding"], second["finding"]) == ("fabricated", "unverified")
    assert first["session"] != second["session"]


def test_task_and_key_are_seen_nowhere_and_the_project_is_unchanged(real: Real, server: ModelServer) -> None:
    home, key = started(real, server, Turn(shell=f"echo key is $SCRIPTED_KEY; {HELD}"), DONE)
    home.wait_held()
    (request,) = home.scenario.turns()
    assert request.holds(WORDS)
    secrets = [WORDS, home.scenario.key]
    assert home.clis()
    assert [line for line in home.command_lines() if any(secret in line for secret in secrets)] == []
    home.let_go()
    assert home.done(key)["status"] == "closed"
    folder = home.fleet.home / "tasks" / key
    kept = (folder / "events.jsonl").read_text() + (folder / "log.jsonl").read_text()
    assert [secret for secret in secrets if secret in kept] == []
    assert "key is [redacted" in kept
    assert home.scenario.key not in "".join(json.dumps(line) for line in home.log_lines())
    assert sorted(path.name for path in home.fleet.cwd.iterdir()) == ["begun", "go"]


@pytest.mark.parametrize("fault", [Fault.RATE_LIMITED, Fault.SERVER_ERROR, Fault.CUT])
def test_short_fault_is_left_to_codex(fault: Fault, real: Real, server: ModelServer) -> None:
    spoilt = Turn(text="half of it", fault=fault, retry_after=1)
    home, key = started(real, server, BEGIN, spoilt, DONE, retries=3)
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("closed", 0)
    (run,) = home.runs(key)
    assert (run["ending"], run["reason"]) == ("finished", "All done.")
    limits = [event["rate_info"]["status"] for event in home.events(key) if event["rate_info"]]
    assert limits == ["rate" if fault is Fault.RATE_LIMITED else "overload"]
    assert home.standing()[""]["state"] == "ready"


def test_refusal_without_an_end_slows_the_account_and_the_session_resumes(real: Real, server: ModelServer) -> None:
    home, key = started(real, server, BEGIN, Turn(fault=Fault.RATE_LIMITED), DONE)
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("closed", 0)
    first, second = home.runs(key)
    assert [first["ending"], second["ending"]] == ["rate_limited", "finished"]
    assert first["session"] == second["session"] != ""
    assert home.scenario.turns()[-1].holds("I begin.")
    assert home.standing()[""]["strikes"] == 0
    assert [[run[name] for name in USED] for run in (first, second)] == [[120, 30, 1000, 0]] * 2


def test_repeatedly_refused_account_is_parked_until_a_person_or_time_frees_it(real: Real, server: ModelServer) -> None:
    refused = Turn(fault=Fault.RATE_LIMITED)
    home, key = started(real, server, refused, refused, BEGIN, DONE, settings=("limits.rate_limit_retries=1",))
    assert [run["ending"] for run in home.ended(key, 2)] == ["rate_limited"] * 2
    wait_for(lambda: home.standing()[""]["state"] == "parked", "the account to be parked", home.describe)
    task = home.task(key)
    assert (task["status"], task["failures"]) == ("open", 0)
    home.fleet.ok("accounts", "unpark", "codex")
    assert home.done(key)["status"] == "closed"
    assert [run["ending"] for run in home.runs(key)] == ["rate_limited", "rate_limited", "finished"]


def test_fleet_waits_instead_of_a_codex_that_would_wait_for_long(real: Real, server: ModelServer) -> None:
    refused = Turn(fault=Fault.RATE_LIMITED, retry_after=3600)
    home, key = started(real, server, refused, BEGIN, DONE, settings=("watchdog.limit_seconds=1",), retries=5)
    (run, *_) = home.ended(key)
    assert (run["ending"], run["reason"].partition(":")[0]) == ("rate_limited", "rate limit")
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("closed", 0)


def test_used_up_plan_parks_its_account_and_the_next_one_takes_over(
    real: Real, server: ModelServer, tmp_path: Path
) -> None:
    used_up = server.scenario([Turn(fault=Fault.LIMIT_REACHED, retry_after=3600)], name="used-up")
    home = real("codex", server.scenario([BEGIN, DONE], name="fresh"))
    home.fleet.env["TZ"] = "Asia/Tokyo"
    setup = cli_env("codex", used_up, tmp_path / "first")
    (tmp_path / "first" / "codex").mkdir(parents=True)
    for path, text in setup.files.items():
        path.write_text(text)
    home.accounts(
        first={"config_dir": setup.env["CODEX_HOME"], "SCRIPTED_KEY": used_up.key},
        second={"config_dir": home.fleet.env["CODEX_HOME"], "SCRIPTED_KEY": home.scenario.key},
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
    # Codex reports times for people: local and in full minutes.
    assert was_told_to_wait(first, 60 * MINUTE, rounding=MINUTE)
    standing = home.standing()
    assert (standing["first"]["state"], standing["second"]["state"]) == ("parked", "ready")
    assert abs(datetime.fromisoformat(standing["first"]["until"]) - instant(first["resume_at"])) < MINUTE


@pytest.mark.parametrize(
    ("fault", "ending"),
    [
        (Fault.SERVER_ERROR, "overloaded"),
        (Fault.OVERLOADED, "overloaded"),
        (Fault.CUT, "overloaded"),
        (Fault.UNAUTHORIZED, "not_logged_in"),
    ],
)
def test_lasting_fault_ends_the_run_and_is_no_failure_of_the_task(
    fault: Fault, ending: str, real: Real, server: ModelServer
) -> None:
    home, key = started(real, server, Turn(text="half of it", fault=fault), BEGIN, DONE)
    (run, *_) = home.ended(key)
    assert run["ending"] == ending
    home.fleet.ok("accounts", "unpark", "codex")
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("closed", 0)
    assert [each["ending"] for each in home.runs(key)] == [ending, "finished"]


def test_codex_is_stopped_completely_when_its_model_is_silent(real: Real, server: ModelServer) -> None:
    home, key = started(real, server, Turn(fault=Fault.HANG), settings=("watchdog.silence_seconds=3",))
    home.scenario.wait_for(1, seconds=PATIENCE)
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("blocked", 1)
    assert home.runs(key)[0]["ending"] == "stalled"
    assert home.agents() == []


def test_codex_is_stopped_and_starts_fresh_when_its_context_is_nearly_full(real: Real, server: ModelServer) -> None:
    turns = (Turn(text="I begin.", shell=HELD, usage=NEARLY_FULL), Turn(shell="test -d . && echo on"), DONE)
    home, key = started(real, server, *turns, settings=("context_pressure_threshold_pct=70",))
    assert home.done(key)["status"] == "closed"
    first, second = home.runs(key)
    assert (first["ending"], first["context_peak"], second["ending"]) == ("context_full", 187_900, "finished")
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
def test_codex_resumes_its_session_when_it_was_killed_during_a_tool(
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
    assert home.done(key)["status"] == "closed"
    first, second = home.runs(key)
    assert (first["ending"], first["exit_signal"], second["ending"]) == ("failed", 9, "finished")
    assert first["session"] == second["session"] != ""
    asked = home.scenario.turns()[1]
    assert asked.holds("I begin.") and asked.holds("where this session stopped")
    assert (home.fleet.cwd / "went-on").exists()


def test_message_interrupts_codex_and_its_session_resumes_with_it(real: Real, server: ModelServer) -> None:
    home, key = started(real, server, Turn(text="I begin.", shell=HELD), Turn(shell="touch heard"), DONE)
    home.wait_held()
    said = json.loads(home.fleet.ok("prompt", key, "use the other file", "--json"))
    assert said["way"] == "interrupts"
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("closed", 0)
    first, second = home.runs(key)
    assert (first["ending"], second["ending"]) == ("interrupted", "finished")
    assert first["session"] == second["session"] != ""
    asked = home.scenario.turns()[1]
    assert asked.holds("I begin.") and any("use the other file" in words for words in asked.said)
    (message,) = home.rows("select * from messages")
    assert message["carried_at"] and message["run"] == second["id"]
