"""Changes that an agent plants in git folders: reported, and reverted when that is certain."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.git.view import PLANTED, View
from fleet.proof.scope import primary
from repositories import commit, make_repository, run_git
from workplaces import Place

EVIL = '[core]\n\tfsmonitor = "touch evil"\n'
#: The git folder of a submodule, whose hooks git would run in the main checkout.
MODULE = ".git/modules/lib/deep"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository with branches, a tag, a remote, a submodule's git folder, and a worktree on branch `work`."""
    base = tmp_path_factory.mktemp("template")
    top = make_repository(base / "project")
    run_git(base, "clone", "--quiet", "--bare", str(top), "remote.git")
    run_git(top, "remote", "add", "origin", "../remote.git")
    run_git(top, "fetch", "--quiet")
    run_git(top, "tag", "v1")
    run_git(top, "branch", "idle")
    run_git(top, "init", "--quiet", "--bare", str(top / MODULE))
    return top


@pytest.fixture
def place(tmp_path: Path, template: Path) -> Place:
    made = Place(tmp_path, lambda path: Path(shutil.copytree(template, path)))
    shutil.copytree(template.parent / "remote.git", made.top.parent / "remote.git")
    for name in ("work", "other"):
        run_git(made.top, "worktree", "add", "--quiet", "-b", name, str(tmp_path / name))
    commit(tmp_path / "work", "work.txt", "mine\n")
    return made


def worktree(place: Place, name: str) -> Path:
    return Path(place.home.root).parent / name


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def plumbing(*words: str) -> Callable[[Path, Path], object]:
    return lambda _top, work: run_git(work, *words)


def into(name: str, text: str) -> Callable[[Path, Path], object]:
    return lambda top, _work: write(top / name, (top / name).read_text() + text if (top / name).exists() else text)


PLANTS: list[tuple[str, Callable[[Path, Path], object], str]] = [
    ("another's branch", plumbing("update-ref", "refs/heads/other", "work"), "refs/heads/other was moved"),
    ("an idle branch", plumbing("update-ref", "refs/heads/idle", "work"), "refs/heads/idle was moved"),
    ("by its file", lambda top, _: write(top / ".git/refs/heads/idle", "1" * 40 + "\n"), "refs/heads/idle"),
    ("a link", plumbing("symbolic-ref", "refs/heads/idle", "refs/heads/work"), "refs/heads/idle became a link to"),
    ("replace", plumbing("replace", "main", "work"), "it replaces one object with another"),
    ("a tag moved", plumbing("tag", "-f", "v1", "work"), "refs/tags/v1 was moved"),
    ("a new tag", plumbing("tag", "v2", "work"), "refs/tags/v2 was made"),
    ("a tag gone", plumbing("tag", "-d", "v1"), "refs/tags/v1 was deleted"),
    ("a remote's", plumbing("update-ref", "refs/remotes/origin/main", "work"), "refs/remotes/origin/main was moved"),
    ("an invented remote's", plumbing("update-ref", "refs/remotes/origin/x", "work"), "refs/remotes/origin/x was made"),
    ("a lost branch", lambda top, _: run_git(top, "branch", "-D", "gone"), "refs/heads/gone was deleted"),
    ("a submodule's settings", into(f"{MODULE}/config", EVIL), "modules/lib/deep/config in the repository's"),
    ("on one line", into(f"{MODULE}/config", "[core] sshCommand = x\n"), "modules/lib/deep/config in the"),
    ("a transport", into(f"{MODULE}/config", '[remote "o"]\n\turl = ext::sh -c x\n'), "modules/lib/deep/config"),
    ("a submodule's hook", into(f"{MODULE}/hooks/pre-commit", "#!/bin/sh\n"), "modules/lib/deep/hooks in the"),
    ("a new submodule", into(".git/modules/new/config", EVIL), "modules/new/config in the repository's"),
    ("alternates", into(".git/objects/info/alternates", "/nowhere\n"), "objects/info/alternates in the"),
    ("grafts", into(".git/info/grafts", "x\n"), "info/grafts in the repository's"),
    ("what is ignored", into(".git/info/exclude", "*\n"), "info/exclude in the repository's"),
    ("commondir", into(".git/commondir", "/nowhere\n"), "commondir in the repository's"),
    (
        "another's worktree",
        lambda top, _: write(top / ".git/worktrees/other/gitdir", "/x/.git\n"),
        "other/gitdir in the",
    ),
]


def test_planted_refs_and_files_are_reported(place: Place) -> None:
    run_git(place.top, "branch", "gone", "main")
    commit(worktree(place, "other"), "gone.txt", "x\n")
    run_git(place.top, "branch", "-f", "gone", "other")
    run_git(worktree(place, "other"), "reset", "--quiet", "--hard", "main")
    whole = Path(place.home.root).parent / "whole"
    shutil.copytree(place.top / ".git", whole, symlinks=True)
    for name, plant, told in PLANTS:
        before = primary.mark(place.view)
        if name.startswith("a new submodule"):
            write(place.top / ".git/modules/new/HEAD", "ref: refs/heads/main\n")
        plant(place.top, worktree(place, "work"))
        found = primary.since(place.home, View(place.home, place.repository), before, "work")
        assert [words for words in found if told in words], (name, found)
        shutil.rmtree(place.top / ".git")
        shutil.copytree(whole, place.top / ".git", symlinks=True)


def test_moved_branch_of_the_main_checkout_is_restored_and_kept(place: Place) -> None:
    before = primary.mark(place.view)
    user = commit(place.top, "user.txt", "during the run\n")
    planted = run_git(worktree(place, "work"), "rev-parse", "work")
    run_git(worktree(place, "work"), "update-ref", "-m", "commit: forged", "refs/heads/main", "work")
    found = primary.since(place.home, place.view, before, "work")
    assert [words for words in found if "was reset to" in words], found
    assert run_git(place.top, "rev-parse", "main") == user
    assert run_git(place.top, "status", "--porcelain") == ""
    (kept,) = run_git(place.top, "for-each-ref", "--format=%(objectname)", "refs/fleet/planted").splitlines()
    assert kept == planted


def test_names_and_files_that_break_the_comparison_hide_nothing(place: Place) -> None:
    Path(os.fsdecode(os.fsencode(place.top) + b"/.git/worktrees/\xff\xfe")).mkdir(parents=True)
    before = primary.mark(place.view)
    run_git(worktree(place, "work"), "tag", "v9", "work")
    assert "refs/tags/v9" in str(primary.since(place.home, place.view, before, "work"))
    write(place.top / ".git/index", "no index")
    assert "not compared" in str(primary.since(place.home, place.view, before, "work"))


def fleets_merge(place: Place, old: str, new: str) -> None:
    """Move main and its checkout as fleet does, without an entry in the checkout's log."""
    log = place.top / ".git/logs/HEAD"
    before = log.read_text()
    run_git(place.top, "merge", "--quiet", "--ff-only", new)
    log.write_text(before)
    told = {"common": place.repository.common, "branch": "main", "old": old, "new": new}
    write(Path(place.home.root) / "merges" / "moves.jsonl", json.dumps(told) + "\n")


def test_merges_of_fleet_and_commits_without_a_log_are_never_undone(place: Place) -> None:
    before, top = primary.mark(place.view), place.top
    user = commit(top, "user.txt", "x\n")
    merged = commit(worktree(place, "other"), "merged.txt", "x\n")
    run_git(worktree(place, "other"), "rebase", "--quiet", "main")
    merged = run_git(top, "rev-parse", "other")
    fleets_merge(place, user, merged)
    found = primary.since(place.home, place.view, before, "work")
    assert [words for words in found if "refs/heads" in words] == [] and run_git(top, "rev-parse", "main") == merged

    run_git(worktree(place, "work"), "update-ref", "refs/heads/main", "work")
    assert "was reset to" in str(primary.since(place.home, place.view, before, "work"))
    assert run_git(top, "rev-parse", "main") == merged, "the merge of fleet stays"
    run_git(worktree(place, "work"), "update-ref", "-d", "refs/heads/main")
    assert "was deleted during the run without" in str(primary.since(place.home, place.view, before, "work"))
    assert run_git(top, "rev-parse", "main") == merged

    log = top / ".git/logs/HEAD"
    known = log.read_text()
    mine = commit(top, "mine.txt", "by a tool that keeps no logs\n")
    log.write_text(known)
    found = primary.since(place.home, place.view, before, "work")
    assert "refs/heads/main was moved" in str(found) and "is back" not in str(found)
    assert run_git(top, "rev-parse", "main") == mine and run_git(top, "status", "--porcelain") == ""


def test_ordinary_work_beside_a_run_is_neither_reported_nor_undone(place: Place) -> None:
    before = primary.mark(place.view)
    top, own, other = place.top, worktree(place, "work"), worktree(place, "other")
    commit(own, "more.txt", "own\n")
    run_git(own, "branch", "backup")
    run_git(own, "stash", "--include-untracked")
    commit(other, "other.txt", "another agent\n")
    run_git(other, "rebase", "--quiet", "main")
    ours = commit(top, "user.txt", "the user\n")
    run_git(top, "tag", "v1.1", "main")
    run_git(top, "branch", "mine", "main~1")
    run_git(top, "branch", "-f", "mine", "main")
    run_git(top, "branch", "-d", "idle")
    run_git(top, "push", "--quiet", "origin", "main", "v1.1")
    elsewhere = top.parent / "elsewhere"
    run_git(top.parent, "clone", "--quiet", "remote.git", str(elsewhere))
    commit(elsewhere, "theirs.txt", "x\n")
    run_git(elsewhere, "tag", "v2")
    run_git(elsewhere, "push", "--quiet", "origin", "HEAD:new", "v2")
    run_git(own, "fetch", "--quiet", "--tags")
    run_git(top, "worktree", "add", "--quiet", "-b", "third", str(top.parent / "third"))
    run_git(top, "worktree", "remove", str(top.parent / "third"))
    run_git(top, "branch", "-m", "mine", "yours")
    run_git(top, "pack-refs", "--all")
    run_git(top, "gc", "--quiet")
    run_git(top, "init", "--quiet", "--bare", str(top / ".git/modules/added"))
    run_git(top / ".git/modules/added", "config", "remote.origin.url", "https://example.invalid/x")
    found = primary.since(place.home, place.view, before, "work")
    assert [words for words in found if not words.startswith("the main checkout went from main at")] == []
    assert run_git(top, "rev-parse", "main") == ours


def test_files_planted_in_a_view_are_set_aside_and_reported(place: Place, tmp_path: Path) -> None:
    place.view.make()
    path = Path(place.view.path)
    usual = (path / "config").read_text()
    evil = tmp_path / "evil"
    write(path / "config", f'{usual}[core]\n\tsshCommand = "touch {evil}"\n[alias]\n\trev-parse = "!touch {evil}"\n')
    write(path / "commondir", str(evil))
    write(path / "hooks/reference-transaction", f"#!/bin/sh\ntouch {evil}\n")
    (path / "hooks/reference-transaction").chmod(0o755)
    write(path / "info/attributes", "* filter=x\n")
    (path / "refs").unlink()
    write(path / "refs/heads/main", "1" * 40)
    view = View(place.home, place.repository)
    assert view.commit_of("main") == run_git(place.top, "rev-parse", "main")
    assert (path / "config").read_text() == usual and not evil.exists()
    assert {each.name for each in (path / PLANTED).iterdir()} >= {"config", "commondir", "hooks", "refs"}
    assert "config" in view.planted(0) and view.planted(path.stat().st_mtime + 60) == []
    again = View(place.home, place.repository)
    again.make()
    assert (path / "config").read_text() == usual
