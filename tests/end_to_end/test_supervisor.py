"""The supervisor with real processes: from `bd create` to settled, whatever the agent does."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from supervised import Supervised, home, wait_for

__all__ = ["home"]


def test_task_is_claimed_run_and_closed_as_unverified(home: Supervised) -> None:
    home.start()
    key = home.create("ok")
    task = home.wait_status(key, "closed")
    assert (task["finding"], task["claim_owner"], task["close_reason"]) == ("unverified", "", "all done")
    (run,) = home.runs(key)
    assert (run["id"], run["ending"], run["exit_status"], run["tool_calls"]) == (f"{key}/1", "finished", 0, 1)
    assert run["containment"] == "pid namespace"


def test_new_task_starts_without_waiting_for_a_poll(home: Supervised) -> None:
    home.set("supervisor.poll_seconds=3600")
    home.start()
    for _ in range(2):  # the second task comes when the supervisor is idle
        home.wait_status(home.create("ok"), "closed")


def test_dependent_tasks_follow_and_slots_are_respected(home: Supervised) -> None:
    first = home.create("ok seconds=0.3")
    others = [home.create("ok seconds=0.3", "--deps", first) for _ in range(5)]
    home.start()
    home.wait_all([first, *others], "closed")
    lives = sorted(
        (float(start[4]), float(end[4])) for start, end in zip(home.notes("start"), home.notes("end"), strict=True)
    )
    assert max(sum(begin <= at < end for begin, end in lives) for at, _ in lives) <= 3
    assert home.notes("start")[0][1] == first


@pytest.mark.parametrize(
    ("do", "ending", "status", "runs"),
    [
        ("fail", "failed", "blocked", 2),
        ("error", "failed", "blocked", 2),
        ("nothing", "finished", "blocked", 2),  # fabricated: restarted once, then a person decides
        ("exit0", "incomplete", "blocked", 4),
        ("garbage", "finished", "closed", 1),
        ("daemons", "finished", "closed", 1),
        ("hold_stdout", "finished", "closed", 1),
        ("long_line megabytes=100", "finished", "closed", 1),
        ("lines count=20000", "finished", "closed", 1),
    ],
)
def test_every_behavior_of_an_agent_ends_and_has_a_name(
    home: Supervised, do: str, ending: str, status: str, runs: int
) -> None:
    other = home.create("ok")
    key = home.create(do)
    home.start()
    home.wait_status(key, status, patience=90)
    assert [run["ending"] for run in home.runs(key)] == [ending] * runs
    assert home.wait_status(other, "closed")["status"] == "closed"
    wait_for(lambda: home.agents() == [], "every process of the agents to be gone")


def test_watchdogs_end_hanging_agents(home: Supervised) -> None:
    home.set("watchdog.first_event_seconds=8", "watchdog.silence_seconds=9", "watchdog.result_grace_seconds=1")
    home.set("watchdog.stop_grace_seconds=1", "limits.retry_limit=1")
    keys = {do: home.create(do) for do in ("hang_start", "hang", "hang_after_result")}
    home.start()
    assert home.wait_status(keys["hang_start"], "blocked")["reason"]
    home.wait_status(keys["hang"], "blocked")
    home.wait_status(keys["hang_after_result"], "closed")
    endings = {do: home.runs(key)[0]["ending"] for do, key in keys.items()}
    assert endings == {"hang_start": "start_hang", "hang": "stalled", "hang_after_result": "hung_after_result"}


def test_agent_that_works_silently_is_left_alone(home: Supervised) -> None:
    home.set("watchdog.silence_seconds=12")
    home.start()
    key = home.create("silent_work seconds=14")
    home.wait_status(key, "closed")
    assert [run["ending"] for run in home.runs(key)] == ["finished"]


def test_limit_parks_the_account_and_counts_no_failure(home: Supervised) -> None:
    home.start()
    key = home.create("limit in=3600")
    wait_for(lambda: home.runs(key) and home.runs(key)[0]["ending"] == "rate_limited", "the limit", home.describe)
    task = home.wait_status(key, "open")
    assert task["failures"] == 0
    (account,) = home.rows("select * from accounts")
    assert account["parked_until"] > time.time() * 1e6 + 3_000e6
    other = home.create("ok")
    time.sleep(1)
    assert home.task(other)["status"] == "open"


def test_full_context_restarts_the_work_a_limited_number_of_times(home: Supervised) -> None:
    home.set("limits.context_limit=1")
    home.start()
    key = home.create("context")
    home.wait_status(key, "blocked")
    assert [run["ending"] for run in home.runs(key)] == ["context_full", "context_full"]
    assert home.task(key)["failures"] == 0


def test_question_blocks_the_task_until_it_is_answered(home: Supervised) -> None:
    home.start()
    key = home.create("ask")
    home.wait_status(key, "blocked")
    (question,) = home.rows("select * from questions where task = ?", key)
    assert "which colour?" in question["text"]
    home.fleet.ok("answer", question["id"], "green")
    home.wait_status(key, "closed")


def test_answer_written_into_the_file_works_as_documented(home: Supervised) -> None:
    home.start()
    key = home.create("ask")
    home.wait_status(key, "blocked")
    page = home.fleet.home / "tasks" / key / "artifacts" / "Q&A.md"
    page.write_text(page.read_text() + "## A: 2026-01-01 10:00\n\ngreen\n")
    home.fleet.ok("bd", "update", key, "--status", "open", "--assignee", "")
    home.wait_status(key, "closed")


def test_kill_stops_an_agent_that_ignores_sigterm_and_blocks_the_task(home: Supervised) -> None:
    home.set("watchdog.stop_grace_seconds=1")
    home.start()
    key = home.create("ignore_term")
    home.wait_started(1)
    home.fleet.ok("kill", key)
    task = home.wait_status(key, "blocked")
    assert "stopped by hand" in task["reason"]
    wait_for(lambda: home.agents() == [], "the agent to be gone")
    home.fleet.ok("bd", "update", key, "-d", "do: ok")
    home.fleet.ok("retry", key)
    home.wait_status(key, "closed")


def test_second_supervisor_is_refused_and_names_the_first(home: Supervised) -> None:
    home.start()
    ended = home.fleet("run")
    assert home.process is not None and home.process.poll() is None
    assert ended.code == 1 and f"pid {home.process.pid}" in ended.err


def test_agents_outlive_a_killed_supervisor_and_are_adopted(home: Supervised) -> None:
    keys = home.create_many([f"ok until={home.go}"] * 3)
    home.start()
    home.wait_started(3)
    home.kill()
    assert len(home.agents()) >= 3
    home.start()
    home.go.touch()
    home.wait_all(keys, "closed")
    assert len(home.notes("start")) == 3
    assert all([run["ending"] for run in home.runs(key)] == ["finished"] for key in keys)


def test_agents_that_ended_meanwhile_are_settled_with_their_true_exit(home: Supervised) -> None:
    good, bad = home.create("ok seconds=1"), home.create("fail code=7")
    home.set("limits.retry_limit=1")
    home.start()
    home.wait_started(2)
    home.kill()
    wait_for(lambda: home.agents() == [], "both to end")
    home.start()
    home.wait_status(good, "closed")
    home.wait_status(bad, "blocked")
    assert [(run["ending"], run["exit_status"]) for run in home.runs(bad)] == [("failed", 7)]


def test_task_continues_when_its_shim_was_killed_with_the_tree(home: Supervised) -> None:
    home.start()
    key = home.create(f"ok until={home.go}")
    home.wait_started(1)
    pids = home.agents()
    shim = next(pid for pid in shims(home))
    os.kill(shim, signal.SIGKILL)
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "its tree to be gone")
    home.go.touch()
    home.wait_status(key, "closed")
    assert [run["ending"] for run in home.runs(key)] == ["lost", "finished"]
    assert home.task(key)["failures"] == 0


def test_sigterm_drains_and_leaves_agents_running(home: Supervised) -> None:
    key = home.create(f"ok until={home.go}")
    home.start()
    home.wait_started(1)
    assert home.process is not None
    home.process.send_signal(signal.SIGTERM)
    assert home.process.wait(60) == 0
    assert home.agents() != []
    waiting = home.create("ok")
    assert home.task(waiting)["status"] == "open"
    home.start()
    home.go.touch()
    home.wait_all([key, waiting], "closed")
    assert len(home.runs(key)) == 1


def test_stopping_agents_gives_their_tasks_back_uncounted(home: Supervised) -> None:
    key = home.create("ok seconds=60")
    for _ in range(4):
        home.start()
        wait_for(lambda: len(home.agents()) > 0, "the agent to run", home.describe)
        assert "stopped" in home.fleet.ok("run", "stop", "--stop-agents")
        assert home.agents() == []
    task = home.task(key)
    assert (task["status"], task["failures"], task["claim_owner"]) == ("open", 0, "")


def test_broken_settings_keep_the_old_ones_until_they_are_repaired(home: Supervised) -> None:
    home.start()
    home.wait_status(home.create("ok"), "closed")
    settings = home.fleet.home / "runtime.toml"
    good = settings.read_text()
    broken = settings.with_name("broken.toml")
    broken.write_text("max_concurrent = = 5\n")
    broken.replace(settings)  # an empty file, which `write_text` leaves for a moment, counts as valid
    home.wait_status(home.create("ok"), "closed")
    settings.write_text(good.replace("max_concurrent = 3", "max_concurrent = 1"))
    wait_for(lambda: "settings reloaded" in home.describe() or "taken over" in log_of(home), "the fix to be read")
    home.wait_status(home.create("ok"), "closed")


def test_task_of_a_missing_coder_stays_open_and_others_run(home: Supervised) -> None:
    waits = home.create("ok", "--coder", "claude")
    home.start()
    home.wait_status(home.create("ok"), "closed")
    assert (home.task(waits)["status"], home.runs(waits)) == ("open", [])


def test_missing_directory_blocks_the_task_with_the_reason(home: Supervised, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    key = home.create("ok", "--cwd", str(gone))
    gone.rmdir()
    home.set("limits.retry_limit=1")
    home.start()
    assert str(gone) in home.wait_status(key, "blocked")["reason"]


def test_documented_files_are_in_the_tasks_folder(home: Supervised) -> None:
    home.start()
    key = home.create("ok")
    home.wait_status(key, "closed")
    folder = home.fleet.home / "tasks" / key
    assert json.loads((folder / "task.json").read_text())["cwd"] == str(home.fleet.cwd)
    kinds = [json.loads(line)["kind"] for line in (folder / "events.jsonl").read_text().splitlines()]
    assert kinds == ["session_started", "tool_use", "tool_result", "session_ended"]
    assert (folder / "log.jsonl").exists() and (folder / "artifacts").is_dir()


def shims(home: Supervised) -> list[int]:
    """Return the shims of this home by their process ids on this machine."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else [b""]
        except OSError:
            continue
        is_shim = any(b"shim" in word for word in words) and b"unshare" not in words[0]
        if is_shim and any(str(home.fleet.home).encode() in word for word in words):
            found.append(int(entry.name))
    return found


def log_of(home: Supervised) -> str:
    return "".join(path.read_text() for path in (home.fleet.home / "logging").glob("fleet-*.jsonl"))
