"""The real opencode through the real supervisor: successful runs, and faults of its model."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from model_server import NEARLY_FULL, Fault, ModelServer, Turn
from real.through_fleet import HELD, Real, RealFleet
from supervised import wait_for

pytestmark = pytest.mark.soak("clis")
BEGIN, DONE = Turn(text="I begin.", shell="test -d . && echo fine"), Turn(text="All done.")
#: A text that can be found in everything that is stored, sent or shown.
WORDS = "the-words-of-the-task"
#: Opencode reports errors on stderr alone. A silent one is checked often, and one with only refusals is stopped soon.
WATCHFUL = ("watchdog.silence_seconds=30", "watchdog.limit_seconds=1")


def started(real: Real, server: ModelServer, *turns: Turn, settings: tuple[str, ...] = ()) -> tuple[RealFleet, str]:
    """Start a supervisor with one task, whose model follows these turns. Return the home and the task's id."""
    home = real("opencode", server.scenario(turns, name="opencode"))
    home.set("limits.rate_limit_base_seconds=0.5", "watchdog.stop_grace_seconds=3", *settings)
    key = home.ask(WORDS)
    home.start()
    return home, key


def test_opencode_creates_files_and_its_usage_is_recorded(real: Real, server: ModelServer) -> None:
    shell = Turn(text="I begin.", shell="pwd > by-shell && echo fine")
    home, key = started(real, server, shell, Turn(write="by-tool", content="one\n"), DONE)
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("closed", 0)
    assert (home.fleet.cwd / "by-shell").read_text().strip() == str(home.fleet.cwd)
    assert (home.fleet.cwd / "by-tool").read_text() == "one\n"
    (run,) = home.runs(key)
    assert (run["ending"], run["reason"], run["tool_calls"], run["exit_status"]) == ("finished", "All done.", 2, 0)
    used = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
    assert [run[name] for name in used] == [360, 90, 3000, 0]
    assert run["cost_usd"] == pytest.approx((360 * 1 + 90 * 2 + 3000 * 0.1) / 1_000_000)
    assert run["context_peak"] == 1120
    work = ("session_started", "assistant_text", "tool_use", "tool_result", "usage")
    more = ("session_started", "tool_use", "tool_result", "usage")
    assert home.kinds(key) == [*work, *more, "session_started", "assistant_text", "usage", "session_ended"]
    assert [event["tool_name"] for event in home.events(key) if event["kind"] == "tool_use"] == ["bash", "write"]
    assert home.scenario.turns()[0].headers["x-session-affinity"] == run["session"]


def test_task_and_key_are_seen_nowhere_and_a_message_interrupts_opencode(real: Real, server: ModelServer) -> None:
    home, key = started(real, server, BEGIN, Turn(shell=HELD), BEGIN, DONE)
    home.wait_held()
    secrets = [WORDS, home.scenario.key]
    assert len(home.clis()) == 1
    assert [line for line in home.command_lines() if any(secret in line for secret in secrets)] == []
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
    folder = home.fleet.home / "tasks" / key
    kept = (folder / "events.jsonl").read_text() + (folder / "log.jsonl").read_text()
    assert [secret for secret in secrets if secret in kept] == []
    assert home.scenario.key not in "".join(json.dumps(line) for line in home.log_lines())
    assert [path.name for path in home.fleet.cwd.iterdir()] == ["begun"]


def test_short_faults_are_left_to_opencode(real: Real, server: ModelServer) -> None:
    spoilt = [Turn(text="half of the answer", fault=fault, retry_after=1) for fault in (Fault.RATE_LIMITED, Fault.CUT)]
    home, key = started(real, server, BEGIN, *spoilt, DONE)
    assert home.done(key)["status"] == "closed"
    (run,) = home.runs(key)
    assert (run["ending"], run["reason"]) == ("finished", "All done.")
    assert [request.status for request in home.scenario.turns()] == [200, 429, 200, 200]
    assert home.standing()[""]["strikes"] == 0


def test_fleet_waits_instead_of_an_opencode_that_would_wait_silently(real: Real, server: ModelServer) -> None:
    told = {
        Fault.RATE_LIMITED: ("rate_limited", "rate", "slowed"),
        Fault.LIMIT_REACHED: ("rate_limited", "plan", "parked"),
        Fault.SERVER_ERROR: ("overloaded", "overload", "slowed"),
    }
    settings = (*WATCHFUL, "limits.rate_limit_base_seconds=60")
    homes = {
        fault: started(real, server, BEGIN, Turn(fault=fault, retry_after=600), settings=settings) for fault in told
    }
    for fault, (ending, kind, state) in told.items():
        home, key = homes[fault]
        (run,) = home.ended(key)
        assert run["ending"] == ending
        assert run["reason"].startswith(f"{kind} limit: AI_APICallError: ")
        wait_for(lambda home=home, state=state: home.standing()[""]["state"] == state, state, home.describe)  # type: ignore[misc]
        task = home.task(key)
        assert (task["status"], task["failures"]) == ("open", 0)


def test_refused_key_parks_the_account_and_the_next_one_takes_over(real: Real, server: ModelServer) -> None:
    refused = server.scenario([Turn(fault=Fault.UNAUTHORIZED)], name="refused")
    home = real("opencode", server.scenario([BEGIN, DONE], name="fresh"))
    good = home.fleet.env["OPENCODE_CONFIG_CONTENT"]
    bad = good.replace(home.scenario.key, refused.key).replace(home.scenario.url("chat"), refused.url("chat"))
    own = {"OPENCODE_CONFIG_CONTENT": bad.replace('"', '\\"')}
    home.accounts(first=own, second={"OPENCODE_CONFIG_CONTENT": good.replace('"', '\\"')})
    key = home.ask()
    home.start()
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("closed", 0)
    first, second = home.runs(key)
    assert [(run["account"], run["ending"]) for run in (first, second)] == [
        ("first", "not_logged_in"),
        ("second", "finished"),
    ]
    assert "Incorrect API key" in first["reason"]
    assert [home.standing()[name]["state"] for name in ("first", "second")] == ["parked", "ready"]


def test_opencode_with_a_silent_model_is_stopped_although_it_ignores_the_first_signal(
    real: Real, server: ModelServer
) -> None:
    unheard, hers = started(real, server, Turn(fault=Fault.HANG), settings=("watchdog.first_event_seconds=20",))
    settings = ("watchdog.silence_seconds=20", "limits.retry_limit=2")  # opencode uses a little CPU even then
    silent = Turn(text="half of the answer", fault=Fault.STALL)
    home, key = started(real, server, BEGIN, silent, DONE, settings=settings)
    (run,) = unheard.ended(hers)
    assert (run["ending"], run["events"], unheard.agents()) == ("start_hang", 0, [])
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("closed", 1)
    first, second = home.runs(key)
    assert [first["ending"], second["ending"]] == ["stalled", "finished"]
    assert first["session"] == second["session"] != ""
    assert home.scenario.turns()[-1].holds("I begin.")


def test_task_starts_fresh_when_the_context_is_nearly_full(real: Real, server: ModelServer) -> None:
    full = BEGIN._replace(usage=NEARLY_FULL)
    again = BEGIN._replace(when="This is run 2")  # it continues while it is asked to stop
    home, key = started(real, server, full, again, DONE, settings=("coders.opencode.context_limit=200000",))
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("closed", 0)
    first, second = home.runs(key)
    assert [first["ending"], second["ending"]] == ["context_full", "finished"]
    assert (first["context_peak"], first["reason"]) == (187_000, "its context is 93% full")
    assert first["session"] != second["session"]
    afresh = next(request for request in home.scenario.turns() if request.turn == 1)
    assert not afresh.holds("I begin.")


def test_opencode_is_stopped_when_it_compacts_repeatedly_in_vain(real: Real, server: ModelServer) -> None:
    home, key = started(real, server, BEGIN, Turn(fault=Fault.CONTEXT_FULL), settings=("limits.context_limit=0",))
    (run,) = home.ended(key)
    assert run["ending"] == "context_full"
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("blocked", 0)
    assert home.agents() == []


def test_database_held_by_another_opencode_is_waited_for(real: Real, server: ModelServer) -> None:
    home = real("opencode", server.scenario([BEGIN, DONE], name="locked"))
    home.set("limits.rate_limit_base_seconds=0.5")
    place = Path(home.fleet.env["XDG_DATA_HOME"]) / "opencode" / "opencode.db"
    place.parent.mkdir(parents=True)
    key = home.ask()
    with closing(sqlite3.connect(place, isolation_level=None)) as other:
        other.execute("begin exclusive")
        home.start()
        first = home.ended(key)[0]
    assert (first["ending"], first["exit_status"]) == ("overloaded", 1)
    assert "its own database" in first["reason"]
    task = home.done(key)
    assert (task["status"], task["failures"]) == ("closed", 0)


def test_opencode_resumes_its_session_when_it_was_killed_during_a_command(real: Real, server: ModelServer) -> None:
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
