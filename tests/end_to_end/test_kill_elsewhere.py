"""`fleet kill` of a worktree on another host: that host saves what exists only there, and removes the worktree."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from repositories import run_git
from supervised import wait_for
from two_hosts import Host, Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def there(site: Site) -> Host:
    """Return the host that has the clone itself."""
    made = site.host("there", "saving.ignored_mb=0")
    made.start()
    return made


@pytest.fixture
def here(site: Site) -> Host:
    return site.host("here")


def done_on(site: Site, host: Host, branch: str) -> tuple[str, Path]:
    """Finish a task in a worktree of a host's own clone and leave an unsaved file. Return its id and worktree."""
    host.fleet.ok("create", branch, "-p", "demo: steps=1", "--headless", "--no-wait", cwd=site.top)
    ((key,),) = site.rows("select id from fleet.tasks where branch = %s", branch)
    site.wait_status(key, "closed")
    ((path, notes),) = site.rows("select path, notes from fleet.workspaces where task = %s", key)
    assert not json.loads(notes)["mirror"]
    (Path(path) / "unsaved.txt").write_text(f"of {branch}\n")
    return key, Path(path)


def wait_gone(site: Site, key: str, host: Host) -> None:
    standing = "select count(*) from fleet.workspaces where task = %s and removed_at is null"
    wait_for(lambda: site.rows(standing, key) == [(0,)], f"the worktree of {key} to go", host.said)


def test_host_that_has_a_worktree_saves_and_removes_it(site: Site, there: Host, here: Host) -> None:
    key, path = done_on(site, there, "own1")
    told = here.fleet("kill", "own1", cwd=site.top)
    assert (told.code, told.err) == (0, "")
    assert told.out == "own1: host there saves what only its worktree holds and removes it soon\n"
    wait_gone(site, key, there)
    assert not path.exists()
    again = here.fleet("kill", "own1", cwd=site.top)
    assert again.code == 1 and f"{key} is already closed, and its worktree is gone" in again.err
    (ref,) = run_git(site.top, "for-each-ref", "--format=%(refname)", "refs/fleet/saved").splitlines()
    assert run_git(site.top, "show", f"{ref}:unsaved.txt") == "of own1"
    assert run_git(site.top, "rev-parse", "--verify", "own1")


def test_unsavable_worktree_stays_and_the_next_kill_says_why(site: Site, there: Host, here: Host) -> None:
    key, path = done_on(site, there, "own2")
    (path / ".gitignore").write_text("big\n")
    (path / "big").write_bytes(b"x" * 2_000_000)
    assert here.fleet("kill", "own2", cwd=site.top).code == 0
    refused = "select count(*) from fleet.workspaces where notes like %s"
    wait_for(lambda: site.rows(refused, "%exceed 0 MB%") == [(1,)], "the host to refuse", there.said)
    told = here.fleet("kill", "own2", cwd=site.top)
    assert told.code == 1 and path.exists()
    assert "host there could not remove it: its ignored files exceed 0 MB: big" in told.err
    assert "`fleet kill --without-ignored own2` skips ignored files" in told.err
    told = here.fleet("kill", "own2", "--without-ignored", "--delete-branch", "--json", cwd=site.top)
    assert told.code == 0 and json.loads(told.out)[0]["removed"] is False
    assert "host there saves what only" in json.loads(told.out)[0]["note"]
    wait_gone(site, key, there)
    kept = run_git(site.top, "for-each-ref", "--format=%(refname)", "refs/heads/own2", "refs/fleet/deleted")
    assert kept.count("\n") == 0 and kept.startswith("refs/fleet/deleted/"), "the branch went, its tip is kept"


def test_unreachable_host_removes_the_worktree_later_unless_the_task_was_reopened(
    site: Site, there: Host, here: Host
) -> None:
    (first, gone), (second, kept) = done_on(site, there, "own3"), done_on(site, there, "own4")
    there.stop()
    told = here.fleet.ok("kill", "own3", "own4", cwd=site.top)
    assert "own3: host there saves what only its worktree holds and removes it when it is back\n" in told
    here.fleet.ok("retry", second)
    there.start()
    site.wait_status(second, "closed")
    wait_gone(site, first, there)
    assert kept.exists() and not gone.exists()
    there.stop()
    here.fleet.ok("bd", "reopen", first)
    again = here.fleet("kill", "own3", cwd=site.top)
    assert (again.code, again.out) == (0, "own3: removed (its branch is kept)\n")
    kept_there = "uncommitted changes is kept there: refs/fleet/saved/"
    assert f"host there has removed it; {kept_there}{first}/" in again.err
