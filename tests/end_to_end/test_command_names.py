"""Names that a new user types, former spellings of options, and previews of commands that destroy."""

import json
from pathlib import Path

import pytest

from builders import a_task
from live_runs import Records, records
from repositories import make_repository
from terminals import Terminals, home

__all__ = ["home", "records"]


@pytest.fixture
def queue(records: Records) -> Records:
    """Return a home with two agents on branches, and a task without a branch."""
    here = str(records.fleet.cwd)
    for name in ("put-a", "put-b", "other"):
        records.store.tasks.add(
            a_task(id=f"fleet-{name}", title=name, branch=name, repo=here, cwd=here, workspace="worktree")
        )
    records.store.tasks.add(a_task(id="fleet-plain", title="plain"))
    return records


def test_stop_ends_the_agent_and_keeps_its_worktree(home: Terminals) -> None:
    home.told("create", "work", "--prompt", "work")
    home.wait_alive("work")
    (tree,) = home.worktrees()
    for command in ("stop", "kill"):
        (planned,) = home.told(command, "work", "--dry-run")
        assert planned["branch"] == "work" and planned["worktree"] == tree
    assert home.sessions() == {"ai_work"}, "a dry run changes nothing"
    (stopped,) = home.told("stop", "work")
    assert (stopped["worktree"], stopped["running"]) == (tree, False)
    assert home.sessions() == set() and home.worktrees() == {tree}
    assert home.listed("work")["work"]["result"] == "stopped by you"
    home.fleet.ok("retry", "work")
    home.wait_alive("work")
    assert home.worktrees() == {tree}
    assert "work: would be closed, and its agent ended" in home.fleet.ok("done", "work", "--dry-run")
    assert home.sessions() == {"ai_work"}


def test_stop_asks_before_it_stops_several_tasks(queue: Records) -> None:
    refused = queue.fleet("stop", "fleet-put-*", "--all-projects")
    assert refused.code == 2 and "--yes" in refused.err
    stopped = queue.fleet.ok("stop", "fleet-put-*", "--all-projects", "--yes")
    assert stopped == "put-a: stopped\nput-b: stopped\n"
    assert queue.store.tasks.get("fleet-put-a").status == "blocked"
    assert queue.store.tasks.get("fleet-other").status == "open"


def test_list_shows_only_the_named_tasks(queue: Records) -> None:
    def listed(*names: str) -> list[str]:
        return [row["branch"] for row in json.loads(queue.fleet.ok("list", "--all-projects", *names, "--json"))]

    assert sorted(listed("fleet-put-*")) == ["put-a", "put-b"]
    assert listed("fleet-other") == ["other"]
    queue.fleet.ok("kill", "fleet-other")
    assert listed("fleet-other") == ["other"], "a stopped task that was named is shown"
    assert queue.fleet("list", "nope").code == 1


def test_task_without_a_part_shows_the_task(queue: Records) -> None:
    assert queue.fleet.ok("task", "fleet-plain") == queue.fleet.ok("show", "fleet-plain")


def test_log_of_a_task_is_its_agents_output(queue: Records) -> None:
    assert queue.fleet("log", "fleet-plain") == queue.fleet("logs", "fleet-plain")
    assert "has not run yet" in queue.fleet("log", "fleet-plain").err


def test_workflow_status_without_an_id_shows_what_runs(home: Terminals) -> None:
    assert home.told("workflow", "status") == []
    Path(home.repo, "flow.toml").write_text(
        'name = "flow"\n[[stages]]\nname = "one"\nprompt_template = "work"\nexecutor = "demo"\n'
    )
    made = [home.told("workflow", "run", "flow.toml")["id"] for _ in range(2)]
    for each in made:
        home.fleet("wait", each)
    assert [each["id"] for each in home.told("workflow", "status")] == made[-1:], "of those that ended, the newest"
    (planned,) = home.told("workflow", "cleanup", made[0], "--dry-run")
    assert Path(planned["worktree"]).exists()
    assert home.fleet.ok("workflow", "status").startswith(made[-1])


def test_supervisor_commands_do_what_run_does(home: Terminals) -> None:
    assert home.fleet("supervisor").code == home.fleet("supervisor", "status").code == 1
    assert home.fleet.ok("supervisor", "start").startswith("supervisor started: pid ")
    assert home.told("supervisor", "status")["running"] and home.told("run", "status")["running"]
    assert home.fleet.ok("supervisor", "restart").startswith("supervisor started: pid ")
    (home.fleet.home / "logging" / "fleet-2026-01-01.jsonl").write_text("one\ntwo\n")
    assert home.fleet.ok("supervisor", "logs", "-n", "1") == home.fleet.ok("log", "1")
    assert home.fleet.ok("supervisor", "stop") == "supervisor stopped\n"


def test_cost_counts_ended_and_running_agents(queue: Records) -> None:
    from fleet.core.task import Verdict

    claim, run = queue.begin("fleet-put-a")
    queue.end(claim, run, "finished", Verdict(status="closed"), cost_usd=0.5, input_tokens=100)
    _, live = queue.begin("fleet-put-b")
    queue.store.runs.end(live.replace(cost_usd=0.25, input_tokens=50, ended_at=queue.store.now(), ending="lost"))
    rows = {row["period"]: row for row in json.loads(queue.fleet.ok("cost", "--json"))}
    assert list(rows) == ["today", "7 days", "30 days", "total"]
    assert (rows["total"]["cost_usd"], rows["total"]["tokens"], rows["total"]["runs"]) == (0.75, 150, 2)
    assert "$0.7500" in queue.fleet.ok("cost")
    assert [row["period"] for row in json.loads(queue.fleet.ok("cost", "--since", "7d", "--json"))] == ["since 7d"]


@pytest.mark.parametrize(
    ("former", "now"),
    [
        ("create x -a nope", "create x -c nope"),
        ("create x --agent nope", "create x --coder nope"),
        ("kill fleet-nope -f", "kill fleet-nope -y"),
        ("kill fleet-nope --force", "kill fleet-nope --yes"),
        ("pr fleet-nope --base main", "pr fleet-nope --into main"),
        ("workflow cleanup wf_nope --branches", "workflow cleanup wf_nope --delete-branch"),
        ("send fleet-nope text", "prompt fleet-nope text"),
        ("finish fleet-nope", "done fleet-nope"),
    ],
)
def test_former_spelling_does_the_same_and_is_not_in_the_help(queue: Records, former: str, now: str) -> None:
    old, new = queue.fleet(*former.split()), queue.fleet(*now.split())
    assert old == new and "no such option" not in old.err.lower()
    [word] = [word for word in former.split() if word not in now.split()]
    assert not word.startswith("--") or word not in queue.fleet.ok(
        *former.split()[: 2 if "cleanup" in former else 1], "--help"
    )


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("delete", "kill"), ("message", "prompt"), ("spend", "cost"), ("atach", "attach")],
)
def test_hint_names_the_command_that_was_meant(queue: Records, typed: str, meant: str) -> None:
    refused = queue.fleet(typed)
    assert refused.code == 2 and f"`fleet {meant}`" in refused.err


@pytest.mark.parametrize(
    "words",
    ["create x --coder mycoder -p y", "config set repo_root=/tmp", "bizarre", "config set coder=mycoder"],
)
def test_no_hint_names_what_was_not_meant(queue: Records, words: str) -> None:
    refused = queue.fleet(*words.split())
    assert refused.code and "did you mean" not in refused.err, refused


@pytest.mark.parametrize("name", ["FLEET_DEBUG", "AI_FLEET_DEBUG"])
def test_debugging_names_the_home_and_the_programs_that_start(home: Terminals, name: str) -> None:
    home.fleet.env[name] = "1"
    assert f"home {home.fleet.home}" in home.fleet("list").err
    assert "debug: start git " in home.fleet("create", "x", "--base", "nope").err
    home.fleet.env[name] = "0"
    assert "debug:" not in home.fleet("list").err


def test_option_is_not_taken_as_the_name_of_a_model(queue: Records) -> None:
    queue.fleet.cwd = make_repository(queue.fleet.cwd / "repo")
    for words in ("create x --model --json", "bd create x --model --json", "create x --coder --json"):
        refused = queue.fleet(*words.split())
        assert refused.code in (1, 2) and "--json" in refused.err, refused
