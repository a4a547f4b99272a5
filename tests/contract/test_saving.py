"""Saving before a worktree is removed: the printed commands restore everything, byte for byte."""

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from contract.worktree_builders import BRANCH, Scene, write
from fleet.core.errors import FleetError
from fleet.git.save.worktree import forget, save, saved_refs
from repositories import commit, make_repository, run_git

NUL = bytes(range(256)) * 5


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_nothing_is_saved_when_git_holds_everything(scene: Scene) -> None:
    commit(scene.work, "done.txt", "done")
    saved = scene.save()
    assert (saved.ref, saved.refs, saved.commands, saved.left_out) == (None, (), (), ())
    assert run_git(scene.top, "for-each-ref", "refs/fleet") == ""


def test_changed_files_are_restored(scene: Scene) -> None:
    write(scene.work / "file1.txt", NUL)
    (scene.work / "file2.txt").unlink()
    back = scene.bring_back(scene.save())
    assert (back / "file1.txt").read_bytes() == NUL
    assert not (back / "file2.txt").exists()
    assert (back / "file3.txt").exists()


def test_untracked_files_are_restored_whatever_their_names(scene: Scene) -> None:
    names = [
        b"plain",
        b"new\nline",
        b'quo"te',
        b"back\\slash",
        b" space ",
        b"-option",
        b"\xff\xfe",
        b"tab\there",
        b"d/e/f",
    ]
    for name in names:
        path = os.path.join(os.fsencode(scene.work), name)  # noqa: PTH118
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
        Path(os.fsdecode(path)).write_bytes(b"I am " + name)
    (scene.work / "link").symlink_to("/nowhere/at all")
    (scene.work / "run.sh").write_text("#!/bin/sh\n")
    (scene.work / "run.sh").chmod(0o755)
    back = scene.bring_back(scene.save())
    for name in names:
        assert Path(os.fsdecode(os.path.join(os.fsencode(back), name))).read_bytes() == b"I am " + name  # noqa: PTH118
    assert os.readlink(back / "link") == "/nowhere/at all"  # noqa: PTH115
    assert os.access(back / "run.sh", os.X_OK)


def test_ignored_files_are_restored_except_build_outputs(scene: Scene) -> None:
    write(scene.work / ".env", "KEY=secret\n")
    write(scene.work / "data" / "app.db", NUL)
    write(scene.work / "build" / "out" / "report.txt", "report")
    write(scene.work / "build" / "node_modules" / "x.js", "x")
    write(scene.work / "node_modules" / "left" / "index.js", "x")
    back = scene.bring_back(scene.save())
    assert (back / ".env").read_text() == "KEY=secret\n"
    assert (back / "data" / "app.db").read_bytes() == NUL
    assert (back / "build" / "out" / "report.txt").read_text() == "report"
    assert not (back / "node_modules").exists()
    assert not (back / "build" / "node_modules").exists()


def test_folder_named_target_is_skipped_only_when_a_tool_marked_it(scene: Scene) -> None:
    write(scene.work / "target" / "mine.txt", "mine")
    write(scene.work / "sub" / "target" / "CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55")
    back = scene.bring_back(scene.save())
    assert (back / "target" / "mine.txt").read_text() == "mine"
    assert not (back / "sub").exists()


def test_setup_files_are_saved_only_when_they_changed(scene: Scene) -> None:
    write(scene.work / ".env", "KEY=1\n")
    found = (scene.work / ".env").stat()
    as_made = scene.place(made={".env": (found.st_size, found.st_mtime_ns)})
    assert scene.save(as_made).ref is None
    write(scene.work / ".env", "KEY=2\n")
    os.utime(scene.work / ".env", ns=(1, 1))
    assert (scene.bring_back(scene.save(as_made)) / ".env").read_text() == "KEY=2\n"


def test_ignored_files_are_named_and_not_saved_when_they_are_too_large(scene: Scene) -> None:
    write(scene.work / "big.db", b"x" * (2 << 20))
    write(scene.work / "small.db", b"x" * 10)
    write(scene.work / "file1.txt", "changed")
    saved = scene.save(max_ignored_mb=1)
    assert saved.too_large == ("big.db (2.0 MB)", "small.db (0.0 MB)")
    assert saved.ref is None
    assert run_git(scene.top, "for-each-ref", "refs/fleet") == ""
    assert scene.save(max_ignored_mb=3).too_large == ()


def test_ignored_files_are_neither_saved_nor_counted_when_they_may_be_lost(scene: Scene) -> None:
    write(scene.work / "big.db", b"x" * (2 << 20))
    assert scene.save(max_ignored_mb=1, with_ignored=False).ref is None
    write(scene.work / "file1.txt", "changed")
    back = scene.bring_back(scene.save(max_ignored_mb=1, with_ignored=False))
    assert (back / "file1.txt").read_text() == "changed"
    assert not (back / "big.db").exists()


def test_staged_and_later_changes_of_a_file_are_both_restored(scene: Scene) -> None:
    write(scene.work / "file1.txt", "staged")
    scene.git("add", "file1.txt")
    write(scene.work / "file1.txt", "later")
    back = scene.bring_back(scene.save())
    assert (back / "file1.txt").read_text() == "later"
    assert (scene.folder / "repo-fleet-1-1-staged" / "file1.txt").read_text() == "staged"


def test_stashes_of_the_branch_are_restored_and_others_left_alone(scene: Scene) -> None:
    write(scene.top / "file2.txt", "the user's")
    run_git(scene.top, "stash")
    write(scene.work / "file1.txt", "stashed")
    scene.git("stash")
    saved = scene.save()
    run_git(scene.top, "stash", "clear")
    scene.bring_back(saved)
    assert (scene.top / "file1.txt").read_text() == "stashed"
    assert (scene.top / "file2.txt").read_text() == "text of file 2\n"


def test_stash_is_not_saved_twice(scene: Scene) -> None:
    write(scene.work / "file1.txt", "stashed")
    scene.git("stash")
    assert scene.save().ref == "refs/fleet/saved/fleet-1/1"
    assert scene.save().ref is None


def test_detached_and_amended_commits_are_restored(scene: Scene) -> None:
    first = commit(scene.work, "file1.txt", "before amending")
    scene.git("commit", "--quiet", "--amend", "--message=amended")
    scene.git("checkout", "--quiet", "--detach")
    loose = commit(scene.work, "loose.txt", "nobody's")
    scene.bring_back(scene.save())
    found = run_git(scene.top, "for-each-ref", "--format=%(objectname)", "refs/heads/saved").splitlines()
    assert sorted(found) == sorted([first, loose])
    assert run_git(scene.top, "show", f"{loose}:loose.txt") == "nobody's"


def test_detached_commit_is_restored_when_head_moved_away_from_it(scene: Scene) -> None:
    scene.git("checkout", "--quiet", "--detach")
    loose = commit(scene.work, "loose.txt", "nobody's")
    scene.git("checkout", "--quiet", BRANCH)
    scene.bring_back(scene.save())
    assert run_git(scene.top, "for-each-ref", "--format=%(objectname)", "refs/heads/saved") == loose


def test_commits_of_the_branch_stay_on_the_branch(scene: Scene) -> None:
    ours = commit(scene.work, "unpushed.txt", "unpushed")
    saved = scene.save()
    scene.bring_back(saved)
    assert scene.tip() == ours
    assert saved.ref is None


def test_rebase_in_progress_is_restored_with_both_sides_of_its_conflict(scene: Scene) -> None:
    commit(scene.top, "file1.txt", "theirs\n")
    commit(scene.work, "first.txt", "first")
    commit(scene.work, "file1.txt", "ours\n")
    before = scene.tip()
    scene.git("rebase", "main", check=False)
    assert (scene.admin / "rebase-merge").exists()
    half = (scene.work / "file1.txt").read_bytes()
    head = scene.git("rev-parse", "HEAD")
    back = scene.bring_back(scene.save())
    assert (back / "file1.txt").read_bytes() == half
    assert b"<<<<<<<" in half
    staged = scene.folder / "repo-fleet-1-1-staged"
    assert (staged / "file1.txt~ours").read_text() == "theirs\n"  # git's word for the side that is rebased onto
    assert (staged / "file1.txt~theirs").read_text() == "ours\n"
    assert (scene.tip(), run_git(scene.top, "cat-file", "-t", head)) == (before, "commit")


def test_changes_are_restored_when_a_failing_hook_prevented_their_commit(scene: Scene) -> None:
    hook = scene.top / ".git" / "hooks" / "pre-commit"
    write(hook, "#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    write(scene.work / "new.txt", "never committed")
    scene.git("add", "new.txt")
    scene.git("commit", "--message=no", check=False)
    assert scene.tip() == scene.base
    assert (scene.bring_back(scene.save()) / "new.txt").read_text() == "never committed"


def with_submodule(scene: Scene) -> Path:
    """Add a submodule to the scene's worktree. Return its checkout."""
    library = make_repository(scene.folder / "library")
    allow = ("-c", "protocol.file.allow=always")
    scene.git(*allow, "submodule", "--quiet", "add", str(library), "lib")
    scene.git("commit", "--quiet", "--message=a submodule")
    return scene.work / "lib"


def test_submodule_is_restored_with_its_commits_and_changed_files(scene: Scene) -> None:
    lib = with_submodule(scene)
    own = commit(lib, "own.txt", "own")
    write(lib / "file1.txt", NUL)
    write(lib / "staged.txt", "staged")
    run_git(lib, "add", "staged.txt")
    (lib / "staged.txt").unlink()
    saved = scene.save()
    back = scene.bring_back(saved)
    assert (back / "lib" / "file1.txt").read_bytes() == NUL
    nested = [path for path in scene.folder.iterdir() if path.name.startswith("repo-fleet-1-1-nested-")]
    assert any((path / "staged.txt").exists() for path in nested)
    assert run_git(scene.top, "cat-file", "-t", own) == "commit"
    assert run_git(scene.top, "fsck", "--no-dangling") == ""


def test_unchanged_submodule_is_not_saved(scene: Scene) -> None:
    with_submodule(scene)
    assert scene.save().ref is None


def test_commit_that_a_submodule_moved_away_from_is_restored(scene: Scene) -> None:
    lib = with_submodule(scene)
    own = commit(lib, "own.txt", "own")
    run_git(lib, "checkout", "--quiet", "HEAD^")
    scene.bring_back(scene.save())
    assert run_git(scene.top, "show", f"{own}:own.txt") == "own"


def test_nested_repository_committed_as_a_link_is_restored(scene: Scene) -> None:
    own = commit(make_repository(scene.work / "inner"), "own.txt", "own")
    scene.git("add", "inner")
    scene.git("commit", "--quiet", "--message=a link to what only lies here")
    back = scene.bring_back(scene.save())
    assert (back / "inner" / "own.txt").read_text() == "own"
    assert run_git(scene.top, "show", f"{own}:own.txt") == "own"


def test_submodule_that_is_no_longer_checked_out_is_restored(scene: Scene) -> None:
    own = commit(with_submodule(scene), "own.txt", "own")
    scene.git("submodule", "--quiet", "deinit", "--force", "lib")
    scene.bring_back(scene.save())
    assert run_git(scene.top, "show", f"{own}:own.txt") == "own"


@pytest.mark.parametrize("place", ["build/inner", "venv/inner"])
def test_nested_repository_in_an_ignored_folder_is_restored(scene: Scene, place: str) -> None:
    inner = make_repository(scene.work / place)
    own = commit(inner, "own.txt", "own")
    back = scene.bring_back(scene.save())
    assert (back / place / "own.txt").read_text() == "own"
    assert run_git(scene.top, "cat-file", "-t", own) == "commit"


def test_stash_of_a_nested_repository_is_restored(scene: Scene) -> None:
    inner = make_repository(scene.work / "inner")
    write(inner / "file1.txt", "stashed inside")
    run_git(inner, "stash")
    stash = run_git(inner, "rev-parse", "refs/stash")
    shutil.rmtree(inner / ".git" / "logs")
    scene.bring_back(scene.save())
    assert run_git(scene.top, "show", f"{stash}:file1.txt") == "stashed inside"


def test_repository_created_by_the_agent_is_restored(scene: Scene) -> None:
    inner = make_repository(scene.work / "inner" / "deep")
    own = commit(inner, "own.txt", "own")
    make_repository(inner / "deeper")
    write(inner / "deeper" / "untracked.txt", "untracked")
    back = scene.bring_back(scene.save())
    assert (back / "inner" / "deep" / "own.txt").read_text() == "own"
    assert (back / "inner" / "deep" / "deeper" / "untracked.txt").read_text() == "untracked"
    assert run_git(scene.top, "cat-file", "-t", own) == "commit"


def test_git_folder_of_a_shallow_clone_is_restored_as_files(scene: Scene) -> None:
    source = make_repository(scene.folder / "source")
    commit(source, "more.txt", "more")
    scene.git("clone", "--quiet", "--depth=1", f"file://{source}", "shallow")
    own = commit(scene.work / "shallow", "own.txt", "own")
    saved = scene.save()
    assert [note.path for note in saved.left_out] == ["shallow"]
    back = scene.bring_back(saved)
    (back / "shallow" / ".git-saved").rename(back / "shallow" / ".git")
    assert run_git(back / "shallow", "rev-parse", "HEAD") == own
    assert run_git(scene.top, "fsck", "--no-dangling") == ""


def test_folder_with_a_name_reserved_by_git_is_restored_under_another_name(scene: Scene) -> None:
    write(scene.work / "odd" / ".git" / "notes.txt", "not a repository")
    write(scene.work / "git~1" / "x", "short name")
    write(scene.work / "junk" / ".git", "no pointer")
    back = scene.bring_back(scene.save())
    assert (back / "odd" / ".git-saved" / "notes.txt").read_text() == "not a repository"
    assert (back / "git~1-saved" / "x").read_text() == "short name"
    assert (back / "junk" / ".git-saved").read_text() == "no pointer"


def test_repository_in_place_of_the_worktree_is_saved(scene: Scene) -> None:
    write(scene.work / "file1.txt", "changed")
    (scene.work / ".git").unlink()
    scene.git("init", "--quiet")
    own = commit(scene.work, "own.txt", "own")
    back = scene.bring_back(scene.save())
    assert (back / "file1.txt").read_text() == "changed"
    assert run_git(scene.top, "cat-file", "-t", own) == "commit"


def test_worktree_without_its_git_folder_is_saved_against_its_branch(scene: Scene) -> None:
    write(scene.work / "file1.txt", "changed")
    saved = scene.save(scene.place(admin=None))
    assert saved.commit is not None
    assert run_git(scene.top, "diff", "--name-only", BRANCH, saved.commit) == "file1.txt"
    assert run_git(scene.top, "rev-parse", f"{saved.commit}^") == scene.base


def test_saved_bytes_are_not_changed_by_line_ends_and_filters(scene: Scene) -> None:
    commit(scene.work, ".gitattributes", "*.txt text eol=lf\n*.bin filter=crypt\n")
    write(scene.work / "mixed.txt", b"one\r\ntwo\nthree\r\n")
    write(scene.work / "secret.bin", "plain")
    back = scene.bring_back(scene.save())
    assert (back / "mixed.txt").read_bytes() == b"one\r\ntwo\nthree\r\n"
    assert (back / "secret.bin").read_text() == "plain"


def test_unchanged_encrypted_files_are_not_saved_as_plain_text(scene: Scene) -> None:
    run_git(scene.top, "config", "filter.swap.clean", "tr a-z b-za")
    run_git(scene.top, "config", "filter.swap.smudge", "tr b-za a-z")
    commit(scene.work, ".gitattributes", "*.sec filter=swap\n")
    write(scene.work / "one.sec", "secret")
    os.utime(scene.work / "one.sec", (1_000_000_000, 1_000_000_000))
    scene.git("add", "one.sec")
    scene.git("commit", "--quiet", "--message=encrypted")
    assert scene.save().ref is None
    write(scene.work / "one.sec", "changed")
    saved = scene.save()
    assert run_git(scene.top, "show", f"{saved.commit}:one.sec") == "changed"


def test_repository_with_long_object_ids_is_saved(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    run_git(tmp_path / "repo", "init", "--quiet", "--initial-branch=main", "--object-format=sha256")
    scene = Scene(tmp_path)
    write(scene.work / "file1.txt", "changed")
    (scene.work / "file2.txt").unlink()
    scene.git("checkout", "--quiet", "--detach")
    loose = commit(scene.work, "loose.txt", "nobody's")
    assert len(loose) == 64
    back = scene.bring_back(scene.save())
    assert (back / "file1.txt").read_text() == "changed"
    assert not (back / "file2.txt").exists()
    assert run_git(scene.top, "cat-file", "-t", loose) == "commit"


def test_files_without_content_are_named(scene: Scene) -> None:
    os.mkfifo(scene.work / "pipe")
    write(scene.work / "file1.txt", "changed")
    assert [(note.path, note.why) for note in scene.save().left_out] == [("pipe", "no plain file")]


def test_link_in_place_of_a_folder_is_saved_as_a_link(scene: Scene) -> None:
    commit(scene.work, "docs/a.txt", "a")
    outside = scene.folder / "outside"
    write(outside / "a.txt", "the user's own")
    (scene.work / "docs" / "a.txt").unlink()
    (scene.work / "docs").rmdir()
    (scene.work / "docs").symlink_to(outside)
    saved = scene.save()
    assert run_git(scene.top, "ls-tree", "-r", str(saved.commit), "docs").split()[0] == "120000"


def test_files_are_saved_when_an_agent_removed_their_permissions(scene: Scene) -> None:
    write(scene.work / "locked" / "in" / "file", "in")
    (scene.work / "locked" / "in" / "file").chmod(0)
    (scene.work / "locked" / "in").chmod(0)
    saved = scene.save()
    assert (scene.work / "locked" / "in").stat().st_mode & 0o700 == 0o700
    assert (scene.work / "locked" / "in" / "file").stat().st_mode & 0o400
    assert (scene.bring_back(saved) / "locked" / "in" / "file").read_text() == "in"


def test_saving_a_run_twice_keeps_both(scene: Scene) -> None:
    refs = []
    for text in ("one", "two", "three"):
        write(scene.work / "file1.txt", text)
        refs.append(scene.save().ref)
    assert refs == [f"refs/fleet/saved/fleet-1/1{end}" for end in ("", "-2", "-3")]
    assert [run_git(scene.top, "show", f"{ref}:file1.txt") for ref in refs] == ["one", "two", "three"]


def test_saved_work_is_listed_and_can_be_dropped(scene: Scene) -> None:
    inner = make_repository(scene.work / "inner")
    commit(inner, "own.txt", "own")
    saved = scene.save()
    assert len(saved.refs) == 2
    listed = saved_refs(scene.view)
    assert [(one.ref, one.task, one.run, one.commit) for one in listed] == [(saved.ref, "fleet-1", "1", saved.commit)]
    assert abs((listed[0].at - datetime.now(UTC)).total_seconds()) < 120
    forget(scene.view, listed[0].ref)
    assert run_git(scene.top, "for-each-ref", "refs/fleet") == ""


def test_only_refs_saved_by_fleet_can_be_dropped(scene: Scene) -> None:
    with pytest.raises(FleetError, match="nothing that fleet saved"):
        forget(scene.view, f"refs/heads/{BRANCH}")
    assert scene.tip() == scene.base


def test_name_that_is_no_valid_ref_is_refused(scene: Scene) -> None:
    for name in ("../../heads/main", "a b", "", "x.lock", "a/b"):
        with pytest.raises(FleetError, match="cannot be part of a ref"):
            save(scene.home, scene.view, scene.place(), name, 1)


def test_invalid_log_is_ignored(scene: Scene) -> None:
    with (scene.admin / "logs" / "HEAD").open("ab") as log:
        log.write(b"\xff" * 300 + b"\n" + b"a" * 40 + b" " + b"b" * 40 + b" x\tcommit\n\0\n")
    write(scene.admin / "ORIG_HEAD", "refs/heads/main\n")
    write(scene.top / ".git" / "refs" / "heads" / "broken", "f" * 40 + "\n")
    write(scene.work / "file1.txt", "changed")
    assert scene.save().ref is not None
