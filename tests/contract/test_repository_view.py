"""fleet's view of a repository obeys fleet alone. Changes that could make git run a program are reported."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fleet.core.errors import FleetError
from fleet.git.repository import find_repository
from fleet.git.trust import fingerprint, snapshot, what_changed
from fleet.git.view import View
from fleet.home import Home
from repositories import commit, make_repository, run_git
from workplaces import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def changes(place: Place, *words: str) -> list[str]:
    """Return the relevant changes that a git command makes."""
    before = snapshot(place.repository)
    run_git(place.top, *words)
    return what_changed(before, snapshot(place.repository))


def test_view_reads_and_moves_refs_of_the_repository(place: Place) -> None:
    newer = commit(place.top, "new.txt", "x")
    assert place.view.commit_of("main") == newer
    assert place.view.commit_of("--help") is None
    place.view.git("update-ref", "refs/fleet/x", newer)
    assert run_git(place.top, "rev-parse", "refs/fleet/x") == newer
    run_git(place.top, "pack-refs", "--all", "--prune")
    place.view.git("update-ref", "-d", "refs/fleet/x", newer)
    assert run_git(place.top, "for-each-ref", "refs/fleet") == ""
    assert (place.top / ".git" / "packed-refs").is_file()


def test_view_works_for_a_bare_repository_without_logs(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "project")
    run_git(tmp_path, "clone", "--quiet", "--bare", str(top), "bare.git")
    view = View(Home(str(tmp_path / "home")), find_repository(str(tmp_path / "bare.git")))
    view.git("update-ref", "refs/heads/new", run_git(top, "rev-parse", "HEAD"))
    assert view.commit_of("new") == run_git(top, "rev-parse", "HEAD")


def test_view_works_for_a_sha256_repository(tmp_path: Path) -> None:
    run_git(tmp_path, "init", "--quiet", "--object-format=sha256", "project")
    newest = commit(tmp_path / "project", "a.txt", "x")
    view = View(Home(str(tmp_path / "home")), find_repository(str(tmp_path / "project")))
    assert view.commit_of("HEAD") is None
    assert view.commit_of(newest) == newest
    assert len(newest) == 64


def test_view_contains_no_setting_that_runs_a_program(place: Place) -> None:
    ran = place.folder / "ran"
    evil = f"touch {ran}; cat"
    for key in ("filter.x.clean", "core.fsmonitor", "diff.x.textconv", "core.sshCommand", "diff.external", "alias.log"):
        run_git(place.top, "config", key, evil if key != "alias.log" else f"!{evil}")
    run_git(place.top, "config", "filter.lfs.clean", evil)
    run_git(place.top, "config", "filter.lfs.smudge", "git-lfs smudge -- %f")
    run_git(place.top, "config", "filter.lfs.process", "git-lfs filter-process")
    (place.top / ".gitattributes").write_text("* filter=x diff=x\n*.big filter=lfs\n")
    (place.top / "a.big").write_text("x")
    index = str(place.folder / "index")
    place.view.git("add", "--all", tree=str(place.top), index=index)
    place.view.git("diff", "--cached", "--textconv", "--no-ext-diff", "main", tree=str(place.top), index=index)
    place.view.git("log", "-1", "main")
    assert not ran.exists()
    assert evil not in (Path(place.view.path) / "config").read_text()


def test_view_copies_content_settings_when_the_repository_is_trusted(place: Place) -> None:
    run_git(place.top, "config", "core.autocrlf", "input")
    run_git(place.top, "config", "core.fileMode", "no")
    (place.folder / 'ignore "me"').write_text("*.tmp\n")
    run_git(place.top, "config", "core.excludesFile", str(place.folder / 'ignore "me"'))

    def taken(key: str) -> str:
        return run_git(place.top, "config", "--file", f"{place.view.path}/config", "--default", "-", "--get", key)

    place.view.make()
    assert [taken(key) for key in ("core.autocrlf", "core.filemode", "core.bare")] == ["input", "false", "true"]
    (place.top / "x.tmp").touch()
    (place.top / "y.txt").touch()
    others = place.view.git("ls-files", "--others", "--exclude-standard", tree=str(place.top))
    assert b"y.txt" in others
    assert b"x.tmp" not in others
    run_git(place.top, "config", "core.autocrlf", "true")
    View(place.home, place.repository).make()
    assert taken("core.autocrlf") == "input"
    place.view.adopt()
    assert taken("core.autocrlf") == "true"
    run_git(place.top, "config", "core.autocrlf", "; touch x")
    place.view.adopt()
    assert taken("core.autocrlf") == "false"


def test_view_copies_lfs_settings_only_in_their_installed_form(place: Place) -> None:
    run_git(place.top, "config", "filter.lfs.clean", "git-lfs clean -- %f")
    run_git(place.top, "config", "filter.lfs.smudge", "git-lfs smudge -- %f")
    run_git(place.top, "config", "filter.lfs.process", "git-lfs filter-process")
    place.view.make()
    assert "git-lfs filter-process" in (Path(place.view.path) / "config").read_text()
    assert (Path(place.view.path) / "lfs").resolve() == place.top / ".git" / "lfs"
    run_git(place.top, "config", "filter.lfs.process", "git-lfs filter-process; touch x")
    place.view.adopt()
    assert "lfs" not in (Path(place.view.path) / "config").read_text()


def test_unreadable_ref_format_is_refused_by_name(place: Place) -> None:
    with (place.top / ".git" / "config").open("a") as config:
        config.write("[extensions]\n\trefStorage = reftable\n")
    with pytest.raises(FleetError, match="'reftable'"):
        place.view.make()


def test_altered_view_is_repaired(place: Place) -> None:
    place.view.make()
    refs = Path(place.view.path) / "refs"
    refs.unlink()
    refs.symlink_to(place.folder)
    (Path(place.view.path) / "config").write_text("[core]\n\tfsmonitor = evil\n")
    view = View(place.home, place.repository)
    assert view.commit_of("main") == place.base
    assert refs.resolve() == place.top / ".git" / "refs"
    assert "evil" not in (Path(place.view.path) / "config").read_text()


def test_many_threads_can_create_a_view_at_once(place: Place) -> None:
    for number in range(10):
        home = Home(str(place.folder / f"home{number}"))
        barrier = threading.Barrier(8)

        def look(home: Home = home, barrier: threading.Barrier = barrier) -> str | None:
            barrier.wait()
            return View(home, place.repository).commit_of("main")

        with ThreadPoolExecutor(8) as pool:
            looks = [pool.submit(look) for _ in range(8)]
            assert {done.result() for done in looks} == {place.base}
        view = Path(View(home, place.repository).path)
        assert not [*view.glob("refs.*"), *view.glob("objects.*")]


def test_ordinary_work_does_not_change_the_fingerprint(place: Place) -> None:
    before = fingerprint(place.repository)
    run_git(place.top, "init", "--quiet", "--bare", "../other.git")
    assert changes(place, "remote", "add", "origin", "../other.git") == ["remote.origin.url was added"]
    before = fingerprint(place.repository)
    run_git(place.top, "push", "--quiet", "--set-upstream", "origin", "main")
    run_git(place.top, "branch", "--track", "more", "main")
    run_git(place.top, "config", "user.email", "agent@example.invalid")
    commit(place.top, "new.txt", "x")
    run_git(place.top, "gc", "--quiet")
    place.add("one")
    assert fingerprint(place.repository) == before


@pytest.mark.parametrize(
    "key",
    [
        *("filter.x.clean", "core.fsmonitor", "core.hookspath", "core.sshcommand", "alias.st", "diff.x.textconv"),
        *("merge.x.driver", "credential.helper", "url.x.insteadof", "remote.o.pushurl", "remote.o.uploadpack"),
        *("include.path", "submodule.x.update", "lfs.customtransfer.x.path", "made.up"),
    ],
)
def test_setting_that_could_run_a_program_changes_the_fingerprint_and_is_named(place: Place, key: str) -> None:
    assert changes(place, "config", key, "one") == [f"{key} was added"]
    assert changes(place, "config", key, "two") == [f"{key} was changed"]
    assert changes(place, "config", "--add", key, "three") == [f"{key} was changed"]
    assert changes(place, "config", "--unset-all", key) == [f"{key} was removed"]


def test_file_included_by_settings_changes_the_fingerprint(place: Place) -> None:
    run_git(place.top, "config", "include.path", "../shared.gitconfig")
    before = snapshot(place.repository)
    (place.top / "shared.gitconfig").write_text("[core]\n\tfsmonitor = evil\n")
    assert what_changed(before, snapshot(place.repository)) == ["core.fsmonitor was added"]


def test_fingerprint_covers_content_and_permissions_of_hooks_and_attributes(place: Place) -> None:
    hook = place.top / ".git" / "hooks" / "pre-commit"
    before = snapshot(place.repository)
    hook.write_text("#!/bin/sh\n")
    added = snapshot(place.repository)
    assert what_changed(before, added) == ["hook pre-commit was added"]
    hook.chmod(0o755)
    run = snapshot(place.repository)
    assert what_changed(added, run) == ["hook pre-commit was changed"]
    target = place.folder / "target"
    target.write_text("#!/bin/sh\n")
    hook.unlink()
    hook.symlink_to(target)
    linked = snapshot(place.repository)
    target.write_text("#!/bin/sh\nevil\n")
    assert what_changed(linked, snapshot(place.repository)) == ["hook pre-commit was changed"]
    hook.unlink()
    (place.top / ".git" / "info" / "attributes").write_text("* filter=x\n")
    assert what_changed(before, snapshot(place.repository)) == ["info/attributes was added"]


def test_unreadable_files_change_the_fingerprint_and_block_nothing(place: Place) -> None:
    before = snapshot(place.repository)
    config = place.top / ".git" / "config"
    os.mkfifo(place.top / ".git" / "hooks" / "pre-push")
    (place.top / ".git" / "config.worktree").write_text("[core]\n\tfsmonitor = evil\n")
    words = what_changed(before, snapshot(place.repository))
    assert words == ["config.worktree: core.fsmonitor was added", "hook pre-push was added"]
    text = config.read_text()
    config.write_text("[broken")
    assert "config was added" in what_changed(before, snapshot(place.repository))
    config.unlink()
    os.mkfifo(config)
    assert "config was added" in what_changed(before, snapshot(place.repository))
    config.unlink()
    config.write_text(f'{text}[alias "\x1b[31m{"x" * 500}"]\n\ta = b\n')
    words = what_changed(before, snapshot(place.repository))
    assert all(word.isprintable() and len(word) < 200 for word in words)
    assert any(word.startswith("alias.?[31m") for word in words)
