"""Work of a repository travels between hosts that share a queue, and returns to its remote."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from repositories import commit, run_git
from supervised import commands, environment, wait_for
from two_hosts import PROJECT, Host, Site, stopped_in_its_work


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def alpha(site: Site) -> Host:
    return site.host("alpha")


@pytest.fixture
def beta(site: Site) -> Host:
    return site.host("beta", "host.listen=127.0.0.1:0")


def test_task_made_on_one_host_runs_on_another_and_its_work_returns(site: Site, alpha: Host, beta: Host) -> None:
    base = commit(site.top, ".fleet/config.toml", PROJECT)  # not pushed: creating the task must push it
    alpha.fleet.ok("trust", cwd=site.top)
    key = alpha.create("steps=4 pause=0.5")
    task = site.task(key)
    assert (task["remote"], task["base"], task["requires"]) == (str(site.bare), base, "")
    assert site.refs()[f"refs/fleet/base/{base}"] == base
    site.hide_checkout()
    beta.start()
    with stopped_in_its_work(site, beta, key):
        wait_for(lambda: "Step 1 of 4" in alpha.fleet("logs", key).out, "its events", lambda: site.describe(key))
        assert alpha.fleet("logs", key).err == "from host beta\n"
        assert "not yet: it is on host beta" in alpha.fleet.ok("show", key)
        assert '"kind"' in alpha.fleet.ok("task", key, "events")
        assert "is on host beta" in alpha.fleet("task", key, "plan").err
        words = [*alpha.fleet.argv, "attach", key]
        talk = subprocess.Popen(words, env=alpha.fleet.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        assert talk.stdout is not None and talk.stdout.readline()
    with talk.stdout as heard:
        assert b"the task is done" in heard.read()
    assert talk.wait(30) == 0
    site.wait_status(key, "closed")
    ref, receipt = f"refs/heads/fleet/{key}", f"refs/fleet/receipts/{key}/1"
    wait_for(lambda: {ref, receipt} <= set(site.refs()), "branch and receipt to arrive", lambda: site.describe(key))
    told = json.loads(run_git(site.bare, "show", f"{receipt}:receipt.json"))
    assert (told["run_id"], told["owner"].startswith("fleet@beta-")) == (f"{key}/1", True)
    assert told["pieces"]["git"]["tip"] == site.refs()[ref]
    gone = "select count(*) from fleet.workspaces where removed_at is null"
    wait_for(lambda: site.rows(gone) == [(0,)], "the worktree of the mirror to go", lambda: site.describe(key))
    assert (beta.fleet.user / "torn-down").read_text() == "down\n"
    assert f"sent:        {ref}, from host beta" in alpha.fleet.ok("show", key)
    beta.stop()
    shutil.rmtree(beta.fleet.home)
    stored = alpha.fleet("logs", key)
    assert "Step 4 of 4" in stored.out and "this is what it stored at" in stored.err
    site.show_checkout()
    assert "set-up.txt" in alpha.fleet.ok("diff", key, "--name-only", cwd=site.top)
    assert run_git(site.top, "rev-parse", f"fleet/{key}") == site.refs()[ref]
    alpha.fleet.ok("merge", key, "--unverified", "--yes", cwd=site.top)
    assert run_git(site.top, "show", "main:set-up.txt") == "set up"


def test_unreachable_remote_does_not_count_against_the_task(site: Site, alpha: Host, beta: Host) -> None:
    """If the remote is unreachable at the start, the task waits uncounted.

    At the end, its work is sent later, also by a restart.
    """
    key = alpha.create("steps=2 pause=0.1")
    site.hide_checkout()
    hidden = site.bare.rename(site.folder / "away.git")
    beta.start()
    wait_for(lambda: "cannot be read" in site.task(key)["reason"], "the task to go back", lambda: site.describe(key))
    assert (site.task(key)["status"], site.task(key)["failures"]) == ("open", 0)
    assert site.rows("select count(*) from fleet.runs") == [(0,)]
    hidden.rename(site.bare)
    hook = site.bare / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho closed for today >&2\nexit 1\n")
    hook.chmod(0o755)
    site.wait_status(key, "closed")
    wait_for(lambda: "does not take" in alpha.fleet.ok("show", key), "what is not sent to be told", beta.said)
    assert f"refs/heads/fleet/{key}" not in site.refs()
    refused = alpha.fleet("diff", key)
    assert refused.code == 1 and "is not on" in refused.err
    beta.kill()
    hook.unlink()
    beta.start()
    wanted = {f"refs/heads/fleet/{key}", f"refs/fleet/receipts/{key}/1", f"refs/fleet/artifacts/{key}/1"}
    wait_for(lambda: wanted <= set(site.refs()), "its work to be sent after the restart", beta.said)
    assert "from host beta" in alpha.fleet.ok("show", key)


def test_tasks_of_a_directory_or_without_a_remote_stay_on_their_host(site: Site, alpha: Host) -> None:
    alpha.fleet.ok("bd", "create", "a directory", "--json")
    plain = json.loads(alpha.fleet.ok("bd", "create", "a directory", "--json", cwd=site.top))["id"]
    (pin,) = json.loads(site.task(plain)["requires"])
    assert pin.startswith("host:alpha@")
    run_git(site.top, "checkout", "--quiet", "-b", "mine")
    made = alpha.fleet("create", "mine", "-p", "go on", "--headless", cwd=site.top)
    assert made.code == 1 and "checked out" in made.err
    run_git(site.top, "checkout", "--quiet", "main")
    alpha.fleet.ok("create", "mine", "-p", "demo: steps=1", "--headless", "--requires", "gpu", cwd=site.top)
    ((key,),) = site.rows("select id from fleet.tasks where branch = 'mine'")
    assert (site.task(key)["remote"], json.loads(site.task(key)["requires"])) == ("", ["gpu", pin])
    run_git(site.top, "remote", "set-url", "origin", str(site.folder / "nowhere.git"))
    commit(site.top, "new.txt", "not pushed\n")
    words = ("bd", "create", "a branch", "--workspace", "worktree", "--json")
    told = alpha.fleet(*words, cwd=site.top)
    assert "stays on this host, alpha" in told.err
    assert json.loads(site.task(json.loads(told.out)["id"])["requires"]) == [pin]
    run_git(site.top, "remote", "remove", "origin")
    told = alpha.fleet(*words, cwd=site.top)
    assert "has no remote" in told.err
    assert "fleet.hosts_key" not in alpha.fleet.ok("bd", "config", "list", "--json")
    alpha.fleet("run", "stop")


def test_work_continues_without_a_lost_host_and_its_files_are_kept(site: Site, alpha: Host) -> None:
    """Unsent work is saved on the lost host's own disk when it returns.

    Another host continues from the remote's state.
    """
    beta, gamma = (site.host(name, "supervisor.claim_seconds=3") for name in ("beta", "gamma"))
    key = alpha.create("steps=2 pause=0.1 silent=600")
    branch = f"fleet/{key}"
    site.hide_checkout()
    beta.start()
    path = working_at(site, key, "beta")
    (path / "unsaved.txt").write_text("on its disk alone\n")
    beta.kill()
    end_agents(beta)
    disk = beta.fleet.home.rename(site.folder / "the disk of beta")  # no other machine sees this disk
    gamma.start()
    other = working_at(site, key, "gamma")
    assert not (other / "unsaved.txt").exists()
    (other / "begun.txt").write_text("begun on gamma\n")
    (gamma.fleet.home / "tasks" / key / "artifacts" / "NOTES.md").write_text("learnt on gamma\n")
    told = alpha.fleet("kill", key)
    assert "host gamma" in told.out + told.err
    site.wait_status(key, "blocked")
    wait_for(lambda: f"refs/heads/{branch}" in site.refs(), "what was begun to be sent", gamma.said)
    assert run_git(site.bare, "show", f"{branch}:begun.txt") == "begun on gamma"
    wait_for(lambda: not other.exists(), "its worktree to go", gamma.said)
    gamma.stop()
    gamma.fleet.home.rename(site.folder / "the disk of gamma")
    disk.rename(beta.fleet.home)
    assert (path / "unsaved.txt").exists()
    beta.start()
    alpha.fleet.ok("retry", key)
    again = working_at(site, key, "beta")
    assert (again / "begun.txt").exists() and not (again / "unsaved.txt").exists()
    assert (beta.fleet.home / "tasks" / key / "artifacts" / "NOTES.md").read_text() == "learnt on gamma\n"
    ((common,),) = site.rows("select common from fleet.workspaces where removed_at is null")
    saved = run_git(Path(common), "for-each-ref", "--format=%(refname)", "refs/fleet/saved").splitlines()
    assert [run_git(Path(common), "show", f"{ref}:unsaved.txt") for ref in saved] == ["on its disk alone"]


def working_at(site: Site, key: str, host: str) -> Path:
    """Wait until an agent of a host has started. Return its worktree."""
    live = "select workspace from fleet.runs where task = %s and owner like %s and ended_at is null and events > 3"
    wait_for(lambda: site.rows(live, key, f"fleet@{host}-%"), f"{host} to work", lambda: site.describe(key))
    return Path(site.rows(live, key, f"fleet@{host}-%")[0][0])


def end_agents(host: Host) -> None:
    """End the agents and shims of a host whose supervisor is dead, as a shutdown does."""
    for pid, _ in commands():
        if b"FLEET_HOME=" + bytes(host.fleet.home) in environment(pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_stages_of_a_workflow_pass_their_branches_between_hosts(site: Site, alpha: Host) -> None:
    hosts = [site.host(name) for name in ("beta", "gamma")]
    stage = {"executor": "demo", "prompt_template": "demo: steps=1"}
    first = {**stage, "name": "first", "host": "beta"}
    second = {**stage, "name": "second", "host": "gamma", "worktree_strategy": "inherit", "depends_on": [0]}
    plan = site.folder / "plan.json"
    plan.write_text(json.dumps({"name": "relay", "task_prompt": "go", "stages": [first, second]}))
    made = json.loads(alpha.fleet.ok("workflow", "run", str(plan), "--json", cwd=site.top))
    alpha.fleet("run", "stop")
    keys = [row[0] for row in site.rows("select id from fleet.tasks order by stage")]
    assert len(keys) == 2 and made
    site.hide_checkout()
    for host in hosts:
        host.start()
    for key in keys:
        site.wait_status(key, "closed")
    owners = dict(site.rows("select task, owner from fleet.runs"))
    assert [owners[key].partition("@")[2].partition("-")[0] for key in keys] == ["beta", "gamma"]
    tips = [site.refs()[f"refs/heads/{site.task(key)['branch']}"] for key in keys]
    assert site.task(keys[1])["base"] == tips[0] != tips[1]
    assert run_git(site.bare, "merge-base", *tips) == tips[0]


def test_failed_setup_on_one_host_does_not_keep_a_task_from_others(site: Site, alpha: Host) -> None:
    beta, gamma = site.host("beta"), site.host("gamma")
    (gamma.fleet.user / "tool").touch()
    commit(site.top, ".fleet/config.toml", '[setup]\ncommands = ["test -e $HOME/tool"]\n')
    alpha.fleet.ok("trust", cwd=site.top)
    key = alpha.create("steps=1")
    site.hide_checkout()
    beta.start()
    wait_for(lambda: site.task(key)["failures"] == 1, "beta to fail", lambda: site.describe(key))
    standing = "select count(*) from fleet.workspaces where removed_at is null"
    wait_for(lambda: site.rows(standing) == [(0,)], "its half-made worktree to go", lambda: site.describe(key))
    beta.stop()
    gamma.start()
    site.wait_status(key, "closed")
    assert f"refs/heads/fleet/{key}" in site.refs()
