"""Uncommitted work of an agent becomes one commit on its branch, and nothing else is committed."""

import os
import random
import shutil
import string
import time
from pathlib import Path
from typing import Any

import pytest

from contract.worktree_builders import BRANCH, Scene, write
from fleet.core.clock import now
from fleet.core.errors import FleetError
from fleet.core.run import Run
from fleet.core.workspace import Workspace
from fleet.git.save import snapshot
from fleet.git.save.leftovers import Leftover, commit_leftovers, leftover_subject
from fleet.git.save.snapshot import Snapshot, note_taken_over
from fleet.proof.tree import of_worktree
from fleet.supervisor.run.work import Work
from repositories import commit, make_repository, run_git
from supervised import small_disk

MESSAGE = "fleet: what run 1 left uncommitted"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def leave(scene: Scene, **changes: object) -> Leftover:
    return commit_leftovers(scene.home, scene.view, scene.place(**changes), scene.index_file, MESSAGE)


def test_leftovers_are_committed_to_the_branch_by_fleet(scene: Scene) -> None:
    write(scene.work / "file1.txt", "changed")
    (scene.work / "file2.txt").unlink()
    write(scene.work / "new" / "file.txt", "new")
    write(scene.work / ".env", "KEY=secret")
    left = leave(scene)
    assert (left.files, left.left_out, left.why_not) == (("file1.txt", "file2.txt", "new/file.txt"), (), "")
    assert left.commit == scene.tip()
    told = run_git(scene.top, "log", "-1", "--format=%an <%ae>|%cn <%ce>|%P|%B", BRANCH)
    assert told == f"fleet <fleet@localhost>|fleet <fleet@localhost>|{scene.base}|{MESSAGE}"
    changes = run_git(scene.top, "diff", "--name-status", scene.base, BRANCH).split("\n")
    assert changes == ["M\tfile1.txt", "D\tfile2.txt", "A\tnew/file.txt"]


def test_git_status_is_clean_after_leftovers_are_committed(scene: Scene) -> None:
    write(scene.work / "file1.txt", "changed")
    scene.git("add", "file1.txt")
    write(scene.work / "new.txt", "new")
    leave(scene)
    assert scene.git("status", "--porcelain") == ""
    assert scene.git("fsck", "--no-dangling") == ""


def test_change_is_committed_when_made_in_the_second_of_the_checkout(scene: Scene) -> None:
    time.sleep(1 - time.time() % 1)  # early in a second, so that the next steps fall into it
    scene.git("reset", "--quiet", "--hard")
    write(Path(scene.index_file), "")
    shutil.copyfile(scene.admin / "index", scene.index_file)
    path = scene.work / "file1.txt"
    old = path.stat()
    path.write_bytes(path.read_bytes().swapcase())
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))
    assert path.stat().st_size == old.st_size
    assert leave(scene).files == ("file1.txt",)


def test_commit_is_not_made_when_nothing_is_left(scene: Scene) -> None:
    assert leave(scene) == Leftover()
    os.utime(scene.work / "file1.txt")
    assert leave(scene) == Leftover()
    assert scene.tip() == scene.base


def test_leftovers_are_committed_despite_failing_hooks_and_signing(scene: Scene) -> None:
    hook = scene.top / ".git" / "hooks" / "pre-commit"
    write(hook, "#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    run_git(scene.top, "config", "commit.gpgSign", "true")
    run_git(scene.top, "config", "gpg.program", "false")
    write(scene.work / "file1.txt", "changed")
    assert leave(scene).commit == scene.tip() != scene.base


def test_commits_of_the_agent_are_kept(scene: Scene) -> None:
    write(scene.work / "one.txt", "one")
    leave(scene)
    write(scene.work / "forced.db", "an ignored file, committed by force")
    scene.git("add", "--force", "forced.db")
    scene.git("commit", "--quiet", "--message=by the agent")
    write(scene.work / "two.txt", "two")
    assert leave(scene).files == ("two.txt",)
    assert run_git(scene.top, "ls-tree", "--name-only", BRANCH).split()[-3:] == ["forced.db", "one.txt", "two.txt"]


def test_newly_ignored_files_are_not_committed(scene: Scene) -> None:
    write(scene.work / "cache" / "x", "x")
    Snapshot(scene.view, scene.place(), scene.index_file).tree(scene.base)
    write(scene.work / ".gitignore", "cache/\n")
    assert leave(scene).files == (".gitignore",)


@pytest.mark.parametrize("state", ["rebase-merge", "MERGE_HEAD", "CHERRY_PICK_HEAD", "sequencer"])
def test_leftovers_are_not_committed_during_a_git_operation(scene: Scene, state: str) -> None:
    write(scene.work / "file1.txt", "changed")
    write(scene.admin / state, scene.base)
    left = leave(scene)
    assert left.commit is None
    assert "in progress" in left.why_not
    assert scene.tip() == scene.base


def test_leftovers_are_not_committed_to_another_branch(scene: Scene) -> None:
    scene.git("checkout", "--quiet", "-b", "other")
    write(scene.work / "file1.txt", "changed")
    assert leave(scene).why_not == f"the worktree is no longer on branch {BRANCH}"
    scene.git("checkout", "--quiet", "--detach")
    assert leave(scene).why_not == f"the worktree is no longer on branch {BRANCH}"
    assert leave(scene, admin=None).why_not == "git no longer knows the worktree"


def test_deleted_branch_is_not_created_again(scene: Scene) -> None:
    write(scene.work / "file1.txt", "changed")
    run_git(scene.top, "update-ref", "-d", f"refs/heads/{BRANCH}")
    assert leave(scene).why_not == f"branch {BRANCH} is gone"


def test_files_are_left_out_and_named_when_a_filter_would_encrypt_them(scene: Scene) -> None:
    commit(scene.work, ".gitattributes", "secret/* filter=git-crypt\n")
    write(scene.work / "secret" / "key", "plain text")
    write(scene.work / "open.txt", "open")
    left = leave(scene)
    assert left.files == ("open.txt",)
    assert [note.path for note in left.left_out] == ["secret/key"]
    assert "git-crypt" in left.left_out[0].why


def test_unchanged_encrypted_files_are_not_reported(scene: Scene) -> None:
    run_git(scene.top, "config", "filter.swap.clean", "tr a-z b-za")
    run_git(scene.top, "config", "filter.swap.smudge", "tr b-za a-z")
    commit(scene.work, ".gitattributes", "*.sec filter=swap\n")
    commit(scene.work, "old.sec", "secret")
    write(scene.work / "staged.sec", "secret")
    for file in (scene.work / "old.sec", scene.work / "staged.sec"):
        os.utime(file, (1_000_000_000, 1_000_000_000))  # git trusts files that are older than its index
    scene.git("add", "staged.sec", "old.sec")
    left = leave(scene)
    assert (left.files, left.left_out) == (("staged.sec",), ())
    assert run_git(scene.top, "show", f"{BRANCH}:staged.sec") == "tfdsfu"


def test_files_that_are_too_large_are_left_out_and_named(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "LARGEST_BYTES", 1024 * 1024)
    write(scene.work / "huge.bin", bytes(1024 * 1024 + 1))
    write(scene.work / "fits.bin", bytes(1024 * 1024))
    left = leave(scene)
    assert left.files == ("fits.bin",)
    assert [(note.path, note.why) for note in left.left_out] == [("huge.bin", "larger than 1 MB")]


def test_some_files_are_committed_when_too_many_are_untracked(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "MOST_UNTRACKED", 10)
    for number in range(15):
        write(scene.work / f"n{number:02}", "x")
    left = leave(scene)
    assert len(left.files) == 10
    assert [note.why for note in left.left_out] == ["of 15 untracked files only 10 were taken"]


def test_pipes_and_nested_repositories_are_not_committed(scene: Scene) -> None:
    (scene.work / "file1.txt").unlink()
    os.mkfifo(scene.work / "file1.txt")
    make_repository(scene.work / "inner")
    write(scene.work / "open.txt", "open")
    left = leave(scene)
    assert left.files == ("open.txt",)
    assert [note.path for note in left.left_out] == ["file1.txt", "inner"]
    assert run_git(scene.top, "show", f"{BRANCH}:file1.txt") == "text of file 1"


def test_links_and_odd_names_are_committed_as_they_are(scene: Scene) -> None:
    (scene.work / "link").symlink_to("/etc/passwd")
    for name in (b"new\nline", b'quo"te', b"\xff"):
        Path(os.fsdecode(os.path.join(os.fsencode(scene.work), name))).write_bytes(name)  # noqa: PTH118
    left = leave(scene)
    assert len(left.files) == 4
    told = run_git(scene.top, "ls-tree", "-z", BRANCH)
    assert "120000" in told
    assert {"new\nline", 'quo"te', os.fsdecode(b"\xff")} <= {row.partition("\t")[2] for row in told.split("\0")}


def test_link_in_place_of_a_folder_is_not_followed(scene: Scene) -> None:
    commit(scene.work, "docs/a.txt", "a")
    write(scene.folder / "outside" / "a.txt", "the user's own")
    (scene.work / "docs" / "a.txt").unlink()
    (scene.work / "docs").rmdir()
    (scene.work / "docs").symlink_to(scene.folder / "outside")
    assert leave(scene).files == ("docs", "docs/a.txt")
    assert run_git(scene.top, "ls-tree", "-r", BRANCH, "docs").split()[0] == "120000"


def test_sparse_checkout_deletes_no_files(scene: Scene) -> None:
    commit(scene.work, "far/away.txt", "far away")
    scene.git("sparse-checkout", "set", "near")
    assert not (scene.work / "far").exists()
    write(scene.work / "near.txt", "near")
    left = leave(scene)
    assert left.files == ("near.txt",)
    assert scene.git("status", "--porcelain") == ""


def test_worktree_that_was_made_sparse_deletes_nothing(scene: Scene) -> None:
    commit(scene.work, "far/away.txt", "far away")
    scene.git("sparse-checkout", "set", "near")
    made = (Path(scene.place().admin or "") / "index").stat()
    write(scene.work / "near.txt", "near")
    left = leave(scene, index=(made.st_size, made.st_mtime_ns))
    assert left.files == ("near.txt",)
    assert scene.git("status", "--porcelain") == ""


def test_index_that_git_made_is_handed_over_clean(scene: Scene) -> None:
    made = (Path(scene.place().admin or "") / "index").stat()
    write(scene.work / "file1.txt", "changed")
    assert leave(scene, index=(made.st_size, made.st_mtime_ns)).files == ("file1.txt",)
    assert scene.git("status", "--porcelain") == ""


def test_broken_private_index_is_rebuilt(scene: Scene) -> None:
    write(scene.work / "file1.txt", "changed")
    first = Snapshot(scene.view, scene.place(), scene.index_file).tree(scene.base)
    write(Path(scene.index_file), b"DIRC" + b"\0" * 30)
    write(Path(scene.index_file + ".lock"), b"")
    assert Snapshot(scene.view, scene.place(), scene.index_file).tree(scene.base) == first


def test_full_disk_leaves_no_partial_object(tmp_path: Path) -> None:
    """Names of a hundred odd letters make trees of several blocks. A nearly full disk takes only the first block."""
    chance = random.Random(1)
    with small_disk(tmp_path / "disk", "4m") as fill_up:
        scene = Scene(tmp_path / "disk")
        scene.index_file = str(tmp_path / "index")
        looking = Snapshot(scene.view, scene.place(), scene.index_file)
        failed = 0
        for step in range(8):
            for _ in range(30):
                write(scene.work / "".join(chance.choices(string.ascii_letters, k=100)), "x")
            room = tmp_path / "disk" / "room"
            room.write_bytes(bytes(step * 2 * 4096))
            filler = fill_up()
            room.unlink()
            try:
                looking.tree(scene.base)
            except FleetError:
                failed += 1
            filler.unlink()
            tree = looking.tree(scene.base)
            assert run_git(scene.top, "fsck", "--full", "--no-dangling") == ""
            assert len(run_git(scene.top, "ls-tree", "--name-only", tree).splitlines()) == 4 + 30 * (step + 1)
        assert 0 < failed < 8
        assert leave(scene).commit == scene.tip() != scene.base


def test_second_look_reads_only_changed_files(scene: Scene) -> None:
    looking = Snapshot(scene.view, scene.place(), scene.index_file)
    looking.tree(scene.base)
    # Git cannot tell from a recent time whether a file was written after the look. Make the times old enough.
    for file in scene.work.glob("*.txt"):
        os.utime(file, (1_000_000_000, 1_000_000_000))
    tree = looking.tree(scene.base)
    told = scene.view.git("ls-files", "--debug", index=scene.index_file).decode()
    assert told.count("mtime: 1000000000:0") == 3
    assert looking.tree(scene.base) == tree


def test_branch_is_left_alone_when_it_moves_meanwhile(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    write(scene.work / "file1.txt", "changed")
    taken = Snapshot.take

    def and_the_branch_moves(looking: Snapshot, base: str, **known: Any) -> snapshot.WorktreeTree:
        found = taken(looking, base, **known)
        run_git(scene.top, "update-ref", f"refs/heads/{BRANCH}", f"{BRANCH}^")
        return found

    monkeypatch.setattr(Snapshot, "take", and_the_branch_moves)
    left = leave(scene)
    assert (left.commit, left.why_not) == (None, f"branch {BRANCH} moved in the meantime")


def take_index_over(scene: Scene) -> None:
    """Begin as a run does: with the index of the new worktree."""
    Path(scene.index_file).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(scene.admin / "index", scene.index_file)
    note_taken_over(scene.index_file, scene.base)


@pytest.mark.parametrize("is_split", [False, True])
def test_leftovers_are_committed_with_the_index_of_a_new_worktree(scene: Scene, is_split: bool) -> None:
    if is_split:  # its other half is not beside the copy
        scene.git("update-index", "--split-index")
    take_index_over(scene)
    write(scene.work / "file1.txt", "changed")
    (scene.work / "file2.txt").unlink()
    write(scene.work / "new.txt", "new")
    assert leave(scene).files == ("file1.txt", "file2.txt", "new.txt")
    changes = run_git(scene.top, "diff", "--name-status", scene.base, BRANCH).split("\n")
    assert changes == ["M\tfile1.txt", "D\tfile2.txt", "A\tnew.txt"]


def test_commits_of_the_agent_stay_when_the_index_is_of_an_older_commit(scene: Scene) -> None:
    take_index_over(scene)
    write(scene.work / "forced.db", "an ignored file, committed by force")
    scene.git("add", "--force", "forced.db")
    scene.git("commit", "--quiet", "--message=by the agent")
    write(scene.work / "two.txt", "two")
    assert leave(scene).files == ("two.txt",)
    assert run_git(scene.top, "ls-tree", "--name-only", BRANCH).split()[-2:] == ["forced.db", "two.txt"]


@pytest.mark.parametrize("by_fleet", [True, False])
def test_index_that_changed_since_is_read_into_again(scene: Scene, by_fleet: bool) -> None:
    take_index_over(scene)
    write(scene.work / "cache" / "x", "x")
    if by_fleet:
        Snapshot(scene.view, scene.place(), scene.index_file).tree(scene.base)
    else:
        scene.view.git("update-index", "--add", "cache/x", tree=str(scene.work), index=scene.index_file)
    write(scene.work / ".gitignore", "cache/\n")
    assert leave(scene).files == (".gitignore",)
    assert "cache" not in run_git(scene.top, "ls-tree", "--name-only", BRANCH).split()


def work_of_a_run(scene: Scene) -> tuple[Work, Run]:
    space = Workspace(
        task_id="fleet-1",
        repo=str(scene.top),
        common=scene.repository.common,
        path=str(scene.work),
        branch=BRANCH,
        base_commit=scene.base,
        made_at=now(),
    )
    run = Run(id="fleet-1/1", task_id="fleet-1", number=1, epoch=1, owner="test", started_at=now())
    return Work(scene.home, space), run


def leave_by(run: Run, scene: Scene) -> Leftover:
    return commit_leftovers(scene.home, scene.view, scene.place(), scene.index_file, leftover_subject(run.id))


def test_evidence_names_the_commit_of_leftovers_as_git_does(scene: Scene) -> None:
    work, run = work_of_a_run(scene)
    write(scene.work / "new.txt", "new")
    left = leave_by(run, scene)
    told = of_worktree(work, run, committed=True, left=left)
    (listed,) = of_worktree(work, run, committed=True).commits
    listed = listed.replace(at=listed.at.replace("Z", "+00:00"))  # newer versions of git shorten UTC
    assert (told.commits, told.count, told.tip) == ((listed,), 1, scene.tip())


@pytest.mark.parametrize("is_later", [True, False])
def test_evidence_names_the_commits_of_the_agent_beside_leftovers(scene: Scene, is_later: bool) -> None:
    work, run = work_of_a_run(scene)
    if not is_later:
        commit(scene.work, "own.txt", "own")
    write(scene.work / "new.txt", "new")
    left = leave_by(run, scene)
    if is_later:
        commit(scene.work, "own.txt", "own")
    told = of_worktree(work, run, committed=True, left=left)
    assert [each.subject for each in told.commits if each.id != left.commit] == ["change own.txt"]
    assert (told.count, told.commits[0].id) == (2, scene.tip())
