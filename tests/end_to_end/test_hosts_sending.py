"""What a host sends to the remote of a task: eventually everything, and nothing of a task that another host has."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from repositories import commit, run_git
from supervised import commands, wait_for
from two_hosts import Host, Site, stopped_in_its_work


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.stop()


def logged(host: Host, words: str) -> int:
    """Return how often a host's supervisor logged these words."""
    files = sorted((host.fleet.home / "logging").glob("fleet-*.jsonl"))
    return sum(len(re.findall(words, file.read_text(errors="replace"))) for file in files)


def sleeping(seconds: str) -> list[int]:
    """Return the processes that sleep for exactly this time."""
    return [pid for pid, words in commands() if words[:2] == [b"sleep", seconds.encode()]]


def test_unsent_work_is_sent_when_the_remote_is_back(site: Site) -> None:
    alpha, beta = site.host("alpha"), site.host("beta")
    key = alpha.create("steps=2 pause=0.5")
    site.hide_checkout()
    beta.start()
    with stopped_in_its_work(site, beta, key):
        (beta.fleet.home / "tasks" / key / "artifacts" / "NOTES.md").write_text("learnt on beta\n")
        away = site.bare.rename(site.folder / "away.git")
    site.wait_status(key, "closed")
    wait_for(lambda: "not yet, from host beta" in alpha.fleet.ok("show", key), "it to be told", beta.said)
    away.rename(site.bare)
    wanted = {f"refs/heads/fleet/{key}", f"refs/fleet/receipts/{key}/1", f"refs/fleet/artifacts/{key}/1"}
    wait_for(lambda: wanted <= set(site.refs()), "its work to be sent", beta.said)
    assert run_git(site.bare, "show", f"refs/fleet/artifacts/{key}/1:NOTES.md") == "learnt on beta"
    wait_for(lambda: "refs/heads/" in alpha.fleet.ok("show", key), "that to be told", beta.said)
    assert logged(beta, f"{key}/1 is not pushed yet") <= 2


def test_refused_artifacts_are_sent_when_the_remote_accepts_them(site: Site) -> None:
    alpha, beta = site.host("alpha"), site.host("beta")
    hook = site.bare / "hooks" / "update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\ncase "$1" in refs/fleet/artifacts/*) exit 1;; esac\n')
    hook.chmod(0o755)
    key = alpha.create("steps=1 pause=0")
    site.hide_checkout()
    beta.start()
    site.wait_status(key, "closed")
    wait_for(lambda: f"refs/heads/fleet/{key}" in site.refs(), "the branch", beta.said)
    wait_for(lambda: "rejects refs/fleet/artifacts" in alpha.fleet.ok("show", key), "it to be told", beta.said)
    assert f"refs/fleet/artifacts/{key}/1" not in site.refs()
    beta.kill()
    hook.unlink()
    beta.start()
    wait_for(lambda: f"refs/fleet/artifacts/{key}/1" in site.refs(), "the artifacts", beta.said)
    standing = "select count(*) from fleet.workspaces where removed_at is null"
    wait_for(lambda: site.rows(standing) == [(0,)], "the worktree to go", beta.said)


def lose(site: Site, host: Host, key: str, *, to_one_that_waits: bool = False) -> None:
    """Let another host claim a task and continue without the local work, or wait for the work."""
    site.execute("update fleet.tasks set epoch = epoch + 1, claim_owner = 'fleet@other-0', run_id = ''")
    if not to_one_that_waits:
        site.execute("update fleet.workspaces set removing_at = made_at, removed_at = made_at")
    wait_for(lambda: logged(host, f"claim on {key} lost"), f"{host.name} to notice", host.said)


@pytest.mark.parametrize("waits", [False, True], ids=["and goes on without", "and waits for what is here"])
def test_host_that_loses_a_task_while_verifying_sends_no_end_of_the_run(site: Site, waits: bool) -> None:
    alpha, beta = site.host("alpha"), site.host("beta", "supervisor.claim_seconds=3")
    seconds = f"77.{os.getpid()}"  # identifies the process from outside
    commit(site.top, ".fleet/config.toml", f'[verify]\ncommand = "sleep {seconds}"\n')
    alpha.fleet.ok("trust", cwd=site.top)
    key = alpha.create("steps=1 pause=0")
    site.hide_checkout()
    beta.start()
    wait_for(lambda: sleeping(seconds), "the verify command", lambda: site.describe(key))
    lose(site, beta, key, to_one_that_waits=waits)
    before = site.refs()
    for pid in sleeping(seconds):
        os.kill(pid, signal.SIGKILL)
    if waits:
        wait_for(lambda: f"refs/heads/fleet/{key}" in site.refs(), "what was begun to be sent", beta.said)
        wait_for(lambda: site.rows("select ending from fleet.runs") == [("lost",)], "its end as lost", beta.said)
    else:
        wait_for(lambda: site.rows("select agents from fleet.hosts") == [(0,)], "the end of its run", beta.said)
        beta.stop()
        assert site.refs() == before
    assert site.rows("select count(*) from fleet.receipts") == [(0,)]


def test_host_killed_while_verifying_sends_its_work_after_a_restart(site: Site) -> None:
    alpha, beta = site.host("alpha"), site.host("beta")
    seconds = f"79.{os.getpid()}"
    rest = '[findings]\nverify_retries = 0\nfailed_verify = "close"\n'
    commit(site.top, ".fleet/config.toml", f'[verify]\ncommand = "sleep {seconds}"\n{rest}')
    alpha.fleet.ok("trust", cwd=site.top)
    key = alpha.create("steps=1 pause=0")
    site.hide_checkout()
    beta.start()
    wait_for(lambda: sleeping(seconds), "the verify command", lambda: site.describe(key))
    beta.kill()
    first = sleeping(seconds)
    beta.start()
    wait_for(lambda: set(sleeping(seconds)) - set(first), "the verify command again", lambda: site.describe(key))
    for pid in sleeping(seconds):
        os.kill(pid, signal.SIGKILL)
    wanted = {f"refs/heads/fleet/{key}", f"refs/fleet/artifacts/{key}/1", f"refs/fleet/receipts/{key}/1"}
    wait_for(lambda: wanted <= set(site.refs()), "its work", lambda: site.describe(key))
    assert site.rows("select number, epoch from fleet.runs where number = 1") == [(1, 2)]
    assert not logged(beta, f"claim on {key} lost")


def test_host_that_loses_a_task_while_pushing_stops_the_push(site: Site) -> None:
    alpha, beta = site.host("alpha"), site.host("beta", "supervisor.claim_seconds=3")
    seconds, before = f"78.{os.getpid()}", site.refs()
    key = alpha.create("steps=1 pause=0")
    hook = site.bare / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\nsleep {seconds}\n")
    hook.chmod(0o755)
    site.hide_checkout()
    beta.start()
    wait_for(lambda: sleeping(seconds), "the push", lambda: site.describe(key))
    lose(site, beta, key)
    wait_for(lambda: not sleeping(seconds), "the push to be ended", beta.said)
    wait_for(lambda: site.rows("select agents from fleet.hosts") == [(0,)], "the end of its run", beta.said)
    beta.stop()
    assert site.refs() == before and site.rows("select count(*) from fleet.receipts") == [(0,)]
