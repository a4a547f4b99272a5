"""Mirrors of a real remote for repositories of other hosts, and pushes back to the remote."""

import contextvars
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from contract.store_builders import a_receipt
from fleet.core.errors import BadInput, FleetError
from fleet.git import mirror, remote, send, worktree
from fleet.git.remote import Remote, RemoteAway
from fleet.git.repository import find_repository
from fleet.git.view import View
from fleet.home import PROJECT_FILES, Home
from needs import require
from repositories import commit, make_repository, run_git


class Site:
    """A person's repository, its bare remote, and the home of another host."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.top = make_repository(folder / "project")
        self.bare = folder / "server" / "project.git"
        run_git(folder, "clone", "--quiet", "--bare", str(self.top), str(self.bare))
        run_git(self.top, "remote", "add", "origin", str(self.bare))
        run_git(self.top, "fetch", "--quiet", "origin")
        self.base = run_git(self.top, "rev-parse", "HEAD")
        self.home = Home(str(folder / "other"))
        self.url = str(self.bare)
        self.remote = Remote(url=self.url, address=self.url)

    def refs(self) -> dict[str, str]:
        rows = run_git(self.bare, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        return dict(line.split(" ") for line in rows)

    def work(self, branch: str, name: str = "new.txt", text: str = "new\n") -> str:
        """Commit to a branch of the mirror in a worktree, as an agent does. Return the commit."""
        repository = mirror.mirror_of(self.home, self.url)
        path = self.folder / "worktrees" / branch
        if not path.exists():
            there = View(self.home, repository).commit_of(f"refs/heads/{branch}")
            base = there or self.base
            worktree.add(self.home, repository, path=str(path), branch=branch, base_commit=base, made=there is None)
        return commit(path, name, text)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_worktree_is_created_from_a_mirror_of_the_remote(site: Site) -> None:
    made = mirror.fetch_mirror(site.home, site.url, site.base)
    assert made == mirror.mirror_of(site.home, site.url)
    assert Path(made.common).parent == Path(os.path.realpath(site.home.root), "mirrors")
    assert View(site.home, made).commit_of("refs/remotes/origin/main") == site.base
    site.work("fix")
    assert (site.folder / "worktrees" / "fix" / "file1.txt").read_text() == "text of file 1\n"


def test_mirror_is_updated_and_forgets_deleted_branches(site: Site) -> None:
    run_git(site.bare, "branch", "old", "main")
    made = mirror.fetch_mirror(site.home, site.url, site.base)
    new = commit(site.top, "a.txt", "a\n")
    run_git(site.top, "push", "--quiet", "origin", "main")
    run_git(site.bare, "branch", "-D", "old")
    run_git(site.bare, "branch", "old/deeper", "main")
    mirror.fetch_mirror(site.home, site.url, new)
    view = View(site.home, made)
    assert view.commit_of("refs/remotes/origin/main") == new
    assert view.commit_of("refs/remotes/origin/old") is None
    assert view.commit_of("refs/remotes/origin/old/deeper") == new


def test_base_outside_of_all_remote_branches_arrives_by_its_own_ref(site: Site) -> None:
    unpushed = commit(site.top, "a.txt", "a\n")
    own = find_repository(str(site.top))
    send.send_base(View(site.home, own), site.remote, unpushed, seconds=30)
    send.send_base(View(site.home, own), site.remote, unpushed, seconds=30)  # a second time is harmless
    assert site.refs()[f"refs/fleet/base/{unpushed}"] == unpushed
    made = mirror.fetch_mirror(site.home, site.url, unpushed)
    assert View(site.home, made).commit_of(unpushed) == unpushed


def test_unknown_base_is_reported_missing(site: Site) -> None:
    made = mirror.fetch_mirror(site.home, site.url, "1" * 40)
    assert View(site.home, made).resolve("1" * 40) == [None]


def test_unreachable_remote_is_reported_and_leaves_no_partial_mirror(site: Site) -> None:
    site.bare.rename(site.folder / "gone")
    with pytest.raises(RemoteAway, match=r"project\.git cannot be read"):
        mirror.fetch_mirror(site.home, site.url, site.base)
    (site.folder / "gone").rename(site.bare)
    made = mirror.fetch_mirror(site.home, site.url, site.base)
    assert View(site.home, made).commit_of(site.base) == site.base


def test_many_tasks_at_once_create_one_mirror(site: Site) -> None:
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda _: mirror.fetch_mirror(site.home, site.url, site.base), range(6)))
    assert set(made) == {mirror.mirror_of(site.home, site.url)}
    there = {path.name for path in Path(site.home.root, "mirrors").iterdir()}
    assert there == {"mark", Path(mirror.mirror_of(site.home, site.url).top).name}


def test_mirror_runs_no_hook_or_setting_of_remote_or_agent(site: Site) -> None:
    """An agent can change the settings and hooks of the mirror.

    git obeys none of them when fleet contacts the remote.
    """
    trap = site.folder / "trapped"
    made = mirror.fetch_mirror(site.home, site.url, site.base)
    program = site.folder / "trap.sh"
    program.write_text(f"#!/bin/sh\ntouch {trap}\nexit 0\n")
    program.chmod(0o755)
    for key in ("core.sshCommand", "core.gitProxy", "credential.helper", "core.fsmonitor", "core.askPass"):
        run_git(Path(made.common), "config", key, str(program))
    run_git(Path(made.common), "config", "remote.origin.uploadpack", str(program))
    run_git(Path(made.common), "config", "remote.origin.receivepack", str(program))
    run_git(Path(made.common), "config", f"url.{site.folder}/elsewhere.insteadOf", site.url)
    hooks = Path(made.common, "hooks")
    hooks.mkdir(exist_ok=True)
    for name in ("pre-push", "reference-transaction", "post-checkout", "post-update"):
        (hooks / name).symlink_to(program)
    tip = site.work("fix")
    trap.unlink(missing_ok=True)  # the agent's own commit obeys its settings
    view = View(site.home, made)
    assert send.send_branch(view, mirror.remote_for(made, site.url), "fix", tip, "t/1") == "refs/heads/fix"
    mirror.fetch_mirror(site.home, site.url, site.base)
    assert site.refs()["refs/heads/fix"] == tip
    assert not trap.exists()


def test_pushing_a_branch_twice_is_harmless(site: Site) -> None:
    made = mirror.fetch_mirror(site.home, site.url, site.base)
    tip, view = site.work("fix"), View(site.home, made)
    for _ in range(2):
        assert send.send_branch(view, site.remote, "fix", tip, "fleet-1/1") == "refs/heads/fix"
    assert site.refs()["refs/heads/fix"] == tip


def test_push_never_overwrites_another_branch(site: Site) -> None:
    run_git(site.top, "checkout", "--quiet", "-b", "fix")
    theirs = commit(site.top, "theirs.txt", "theirs\n")
    run_git(site.top, "push", "--quiet", "origin", "fix")
    made = mirror.fetch_mirror(site.home, site.url, site.base)
    mine = site.work("fix", "mine.txt")
    assert send.send_branch(View(site.home, made), site.remote, "fix", mine, "fleet-1/2") == "refs/fleet/runs/fleet-1/2"
    refs = site.refs()
    assert (refs["refs/heads/fix"], refs["refs/fleet/runs/fleet-1/2"]) == (theirs, mine)


def test_rejected_push_is_reported(site: Site) -> None:
    made = mirror.fetch_mirror(site.home, site.url, site.base)
    tip = site.work("fix")
    hook = site.bare / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho no, never >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(FleetError, match=r"does not take fix: .*pre-receive hook declined"):
        send.send_branch(View(site.home, made), site.remote, "fix", tip, "t/1")
    site.bare.rename(site.folder / "gone")
    with pytest.raises(RemoteAway, match="nothing can be put onto"):
        send.send_branch(View(site.home, made), site.remote, "fix", tip, "t/1")


def test_receipt_commits_are_identical_however_often_they_are_made(site: Site) -> None:
    made = mirror.fetch_mirror(site.home, site.url, site.base)
    view = View(site.home, made)
    first = a_receipt("fleet-a.1/1", made_at=datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=UTC))
    second = a_receipt("fleet-a.1/2", finding="no_changes")
    texts = {'{"finding": "verified"}\n': first, '{"finding": "no_changes"}\n': second}
    sent = send.send_receipts(view, site.remote, texts)
    assert set(sent.arrived) == {"refs/fleet/receipts/fleet-a.1/1", "refs/fleet/receipts/fleet-a.1/2"}
    before = site.refs()
    time.sleep(1.1)  # a new commit would have another time
    assert send.send_receipts(view, site.remote, texts).refused == {}
    assert site.refs() == before
    shown = run_git(site.bare, "show", "refs/fleet/receipts/fleet-a.1/1:receipt.json")
    assert shown == '{"finding": "verified"}'


def test_branch_continues_from_the_tip_of_another_host(site: Site) -> None:
    made = mirror.fetch_mirror(site.home, site.url, site.base)
    run_git(site.top, "checkout", "--quiet", "-b", "fix")
    theirs = commit(site.top, "theirs.txt", "theirs\n")
    run_git(site.top, "push", "--quiet", "origin", "fix")
    mirror.fetch_mirror(site.home, site.url, site.base)
    view = View(site.home, made)
    tip = view.commit_of("refs/remotes/origin/fix")
    assert tip == theirs
    assert "continues from" in mirror.catch_up(site.home, made, "fix", tip, site.base)
    assert view.commit_of("refs/heads/fix") == theirs
    assert mirror.catch_up(site.home, made, "fix", tip, site.base) == ""
    ahead = site.work("fix", "more.txt")
    worktree.remove(site.home, made, str(site.folder / "worktrees" / "fix"))
    assert mirror.catch_up(site.home, made, "fix", tip, site.base) == ""  # commits ahead stay
    assert view.commit_of("refs/heads/fix") == ahead


def test_commits_that_only_the_local_branch_had_are_kept(site: Site) -> None:
    made = mirror.fetch_mirror(site.home, site.url, site.base)
    stale = site.work("fix", "stale.txt")
    worktree.remove(site.home, made, str(site.folder / "worktrees" / "fix"))
    run_git(site.top, "checkout", "--quiet", "-b", "fix")
    theirs = commit(site.top, "theirs.txt", "theirs\n")
    run_git(site.top, "push", "--quiet", "origin", "fix")
    mirror.fetch_mirror(site.home, site.url, site.base)
    told = mirror.catch_up(site.home, made, "fix", theirs, site.base)
    view = View(site.home, made)
    assert view.commit_of("refs/heads/fix") == theirs
    assert view.commit_of(f"refs/fleet/deleted/fix/{stale[:12]}") == stale and "refs/fleet/deleted" in told


def test_foreign_or_checked_out_branch_is_left_alone(site: Site) -> None:
    foreign = run_git(site.top, "commit-tree", "HEAD^{tree}", "-m", "from nowhere")
    run_git(site.top, "push", "--quiet", "origin", f"{foreign}:refs/heads/fix")
    made = mirror.fetch_mirror(site.home, site.url, site.base)
    view = View(site.home, made)
    assert mirror.catch_up(site.home, made, "fix", foreign, site.base) == ""
    assert view.commit_of("refs/heads/fix") is None
    mine = site.work("other", "mine.txt")
    later = commit(site.top, "later.txt", "later\n")
    run_git(site.top, "push", "--quiet", "origin", "HEAD:refs/heads/other")
    mirror.fetch_mirror(site.home, site.url, site.base)
    assert mirror.catch_up(site.home, made, "other", later, site.base) == ""
    assert view.commit_of("refs/heads/other") == mine


def test_branch_returns_to_the_repository_that_created_the_task(site: Site) -> None:
    made = mirror.fetch_mirror(site.home, site.url, site.base)
    tip = site.work("fix")
    send.send_branch(View(site.home, made), site.remote, "fix", tip, "t/1")
    own, home = find_repository(str(site.top)), Home(str(site.folder / "own"))
    assert mirror.bring(home, own, site.url, "nothing") is None
    assert mirror.bring(home, own, site.url, "fix") == tip
    assert mirror.catch_up(home, own, "fix", tip, site.base) != ""
    assert run_git(site.top, "rev-parse", "fix") == tip
    with pytest.raises(BadInput):
        mirror.bring(home, own, site.url, "--upload-pack=x")


def test_local_repository_is_used_when_its_remote_is_the_one_of_the_task(site: Site, tmp_path: Path) -> None:
    own = find_repository(str(site.top))
    there = mirror.mirror_of(site.home, site.url)
    assert mirror.repository_at(site.home, str(site.top), site.url, site.base) == own
    assert mirror.repository_at(site.home, str(site.top), site.url, "1" * 40) == there
    assert mirror.repository_at(site.home, str(site.top), "https://example.invalid/x.git", site.base).top != own.top
    assert mirror.repository_at(site.home, str(tmp_path / "nowhere"), site.url, site.base) == there
    run_git(site.top, "remote", "set-url", "origin", "ext::sh -c true")
    assert mirror.repository_at(site.home, str(site.top), site.url, site.base) == there


def test_secret_in_a_remote_address_is_used_and_never_shown(site: Site) -> None:
    run_git(site.top, "remote", "set-url", "origin", "https://me:hunter2hunter2@127.0.0.1:1/x.git")
    own = find_repository(str(site.top))
    found = remote.remote_of(own)
    assert found is not None
    assert (found.url, "hunter2hunter2" in found.address) == ("https://127.0.0.1:1/x.git", True)
    assert mirror.remote_for(own, found.url) == found
    with pytest.raises(RemoteAway) as away:
        mirror.bring(site.home, own, found.url, "fix")
    assert "hunter2" not in str(away.value) + away.value.hint


def test_project_file_is_read_from_the_base_commit(site: Site) -> None:
    with_file = commit(site.top, PROJECT_FILES[0], "[ports]\ncount = 7\n")
    run_git(site.top, "push", "--quiet", "origin", "main")
    mirror.fetch_mirror(site.home, site.url, with_file)
    for base, text in ((with_file, "[ports]\ncount = 7\n"), (site.base, "")):
        folder = mirror.keep_project(site.home, site.url, base, PROJECT_FILES)
        assert folder == mirror.project_folder(site.home, site.url, base)
        assert Path(folder, PROJECT_FILES[0]).read_text() == text


def test_project_file_is_ignored_when_it_is_a_link_or_too_long(site: Site) -> None:
    (site.top / ".fleet").mkdir()
    (site.top / PROJECT_FILES[0]).symlink_to("/etc/passwd")
    run_git(site.top, "add", "--force", PROJECT_FILES[0])
    run_git(site.top, "commit", "--quiet", "-m", "a link")
    run_git(site.top, "push", "--quiet", "origin", "main")
    base = run_git(site.top, "rev-parse", "HEAD")
    mirror.fetch_mirror(site.home, site.url, base)
    assert Path(mirror.keep_project(site.home, site.url, base, PROJECT_FILES), PROJECT_FILES[0]).read_bytes() == b""


@contextmanager
def git_daemon(folder: Path) -> Iterator[int]:
    """Serve a folder with git's own server. Yield the free port that it uses."""
    found = subprocess.run(["git", "--exec-path"], capture_output=True, text=True, check=True).stdout.strip()
    require(Path(found, "git-daemon").exists(), "git-daemon")
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ("--listen=127.0.0.1", f"--port={port}", "--reuseaddr", "--export-all", "--enable=receive-pack")
    server = subprocess.Popen(
        [f"{found}/git-daemon", *words, f"--base-path={folder}", str(folder)], stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(3000):
            with closing(socket.socket()) as there:
                if there.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.02)
        yield port
    finally:
        server.terminate()
        server.wait(60)


def test_mirror_works_over_the_network(site: Site) -> None:
    with git_daemon(site.bare.parent) as port:
        url = f"git://127.0.0.1:{port}/project.git"
        made = mirror.fetch_mirror(site.home, url, site.base)
        view, there = View(site.home, made), Remote(url=url, address=url)
        assert view.commit_of("refs/remotes/origin/main") == site.base
        assert send.send_branch(view, there, "copy", site.base, "t/1") == "refs/heads/copy"
    assert site.refs()["refs/heads/copy"] == site.base
    with pytest.raises(RemoteAway, match="cannot be read"):
        mirror.fetch_mirror(site.home, url, site.base)


def test_silent_server_is_given_up(site: Site) -> None:
    with closing(socket.socket()) as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(5)
        url = f"git://127.0.0.1:{deaf.getsockname()[1]}/project.git"
        made = mirror.fetch_mirror(site.home, site.url, site.base)
        with pytest.raises(RemoteAway, match=r"did not answer `git ls-remote` in 0.5 s"):
            view = View(site.home, made)
            remote.talk(view, Remote(url=url, address=url), "ls-remote", "--", url, seconds=0.5)


def test_ending_one_errand_ends_only_its_own_connections(site: Site) -> None:
    with closing(socket.socket()) as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(5)
        url = f"git://127.0.0.1:{deaf.getsockname()[1]}/project.git"
        view = View(site.home, mirror.fetch_mirror(site.home, site.url, site.base))

        def ask(address: str) -> remote.RemoteAnswer:
            return remote.talk(view, Remote(url=address, address=address), "ls-remote", "--", address, seconds=3600)

        with remote.errand() as talks, ThreadPoolExecutor() as threads:
            context = contextvars.copy_context()
            going_on = threads.submit(context.run, ask, url)
            heard, _ = deaf.accept()
            talks.end()
            assert going_on.result().status == -signal.SIGKILL
            heard.close()
            with pytest.raises(RemoteAway, match="nothing is said to"):
                ask(site.url)
        assert ask(site.url).status == 0
