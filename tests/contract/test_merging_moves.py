"""Moving a branch with its checkouts: files and branch together, or neither."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.core.errors import RepositoryBusy
from fleet.git.merge.branch_move import BranchMove, MoveResult, TargetMoved, drop, entries, move
from merges import branch_with, fingerprint, status
from repositories import IDENTITY, commit, make_repository, run_git
from workplaces import Place

TOKEN = "0123456789abcdef"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    commit(made.top, ".gitignore", "ignored*\n")
    commit(made.top, "folder/inner.txt", "inner\n")
    commit(made.top, "tool.sh", "#!/bin/sh\n")
    made.base = run_git(made.top, "rev-parse", "main")
    return made


def target(place: Place, files: dict[str, str | None] | None = None) -> str:
    """Return a commit to move the branch to. It changes, adds and deletes files."""
    given = files or {"file1.txt": "new\n", "added/new.txt": "new\n", "file3.txt": None}
    return branch_with(place.top, "work", given, base=place.base)


def moved(place: Place, new: str, branch: str = "main", **more: object) -> MoveResult:
    entry = BranchMove(
        token=TOKEN, common=place.repository.common, top=place.repository.top, branch=branch, old=place.base, new=new
    )
    done = move(place.home, place.view, entry, **more)  # type: ignore[arg-type]
    drop(place.home, done.entry)
    return done


def assert_at(place: Place, new: str, checkout: Path | None = None, branch: str = "main") -> None:
    """Assert that a branch and its checkout are at a commit and that no temporary file is left."""
    where = checkout or place.top
    assert run_git(place.top, "rev-parse", f"refs/heads/{branch}") == new == run_git(where, "rev-parse", "HEAD")
    assert run_git(where, "status", "--porcelain") == ""
    run_git(where, "update-index", "--refresh")
    assert run_git(where, "write-tree") == run_git(place.top, "rev-parse", f"{new}^{{tree}}")
    assert not list((place.top / ".git").glob("**/*.lock")) and entries(place.home) == []
    assert not [file for file in Path(place.view.path).iterdir() if file.name.startswith("moving")]


def test_clean_checkout_moves_with_its_branch(place: Place) -> None:
    (place.top / "ignored.txt").write_text("mine\n")
    (place.top / "untracked.txt").write_text("mine\n")
    new = target(place)
    assert moved(place, new).why_not == ""
    (place.top / "untracked.txt").unlink()
    assert_at(place, new)
    assert (place.top / "file1.txt").read_text() == "new\n" and (place.top / "added" / "new.txt").exists()
    assert not (place.top / "file3.txt").exists() and (place.top / "ignored.txt").read_text() == "mine\n"
    assert run_git(place.top, "reflog", "main", "-1", "--format=%gs") == "fleet merge: Fast-forward"


def test_branch_moves_alone_when_it_is_not_checked_out(place: Place) -> None:
    run_git(place.top, "branch", "release")
    before, new = fingerprint(place.top / "folder"), target(place)
    assert moved(place, new, "release").why_not == ""
    assert run_git(place.top, "rev-parse", "release") == new
    assert fingerprint(place.top / "folder") == before and run_git(place.top, "rev-parse", "main") == place.base


def test_other_worktree_moves_with_its_branch(place: Place) -> None:
    tree = place.folder / "tree"
    run_git(place.top, "worktree", "add", "--quiet", "-b", "release", str(tree))
    new = target(place)
    assert moved(place, new, "release").why_not == ""
    assert_at(place, new, tree, "release")
    assert run_git(place.top, "status", "--porcelain") == ""


def test_branch_is_not_moved_when_it_is_checked_out_twice(place: Place) -> None:
    trees = [place.folder / "tree-1", place.folder / "tree-2"]
    run_git(place.top, "branch", "release")
    for tree in trees:
        run_git(place.top, "worktree", "add", "--quiet", "--force", str(tree), "release")
    new, before = target(place), [fingerprint(tree) for tree in trees]
    assert f"checked out in {trees[0]} and in {trees[1]}" in moved(place, new, "release").why_not
    assert [fingerprint(tree) for tree in trees] == before
    assert run_git(place.top, "rev-parse", "refs/fleet/merged/release") == new


def test_modes_links_and_replaced_folders_are_written_as_git_would(place: Place) -> None:
    run_git(place.top, "checkout", "--quiet", "-b", "work")
    (place.top / "tool.sh").chmod(0o755)
    run_git(place.top, "rm", "--quiet", "-r", "folder", "file2.txt")
    (place.top / "folder").write_text("now a file\n")
    (place.top / "file2.txt").mkdir()
    (place.top / "file2.txt" / "deep.txt").write_text("now a folder\n")
    (place.top / "link").symlink_to("file1.txt")
    (place.top / "sp ace ä\n.txt").write_text("odd\n")
    run_git(place.top, "add", "--all")
    run_git(place.top, "commit", "--quiet", "-mshapes")
    new = run_git(place.top, "rev-parse", "work")
    run_git(place.top, "checkout", "--quiet", "main")
    assert moved(place, new).why_not == ""
    assert_at(place, new)
    assert os.access(place.top / "tool.sh", os.X_OK) and (place.top / "link").is_symlink()
    assert (place.top / "folder").is_file() and (place.top / "file2.txt" / "deep.txt").is_file()


def test_checkout_with_a_split_index_moves(place: Place) -> None:
    run_git(place.top, "update-index", "--split-index")
    new = target(place)
    assert moved(place, new).why_not == ""
    assert_at(place, new)


def test_line_ends_are_written_as_the_repository_configures(tmp_path: Path) -> None:
    def make(path: Path) -> Path:
        made = make_repository(path)
        run_git(made, "config", "core.autocrlf", "true")
        run_git(made, "rm", "--quiet", "--cached", "-r", ".")
        run_git(made, "reset", "--quiet", "--hard")
        return made

    place = Place(tmp_path, make)
    new = target(place)
    assert moved(place, new).why_not == ""
    assert (place.top / "file1.txt").read_bytes() == b"new\r\n"
    assert_at(place, new)


def test_checkout_goes_back_when_its_branch_moved_meanwhile(place: Place) -> None:
    new, other = target(place), branch_with(place.top, "other", {"x": "y\n"}, base=place.base)
    run_git(place.top, "update-ref", "refs/heads/release", other)
    tree = place.folder / "tree"
    run_git(place.top, "worktree", "add", "--quiet", str(tree), "release")
    run_git(tree, "reset", "--quiet", "--hard", place.base)
    run_git(place.top, "update-ref", "refs/heads/release", other)
    run_git(tree, "read-tree", place.base)  # as if the branch had just been moved and the checkout had stayed
    before = {name: seen for name, seen in fingerprint(tree).items()}
    with pytest.raises(TargetMoved):
        moved(place, new, "release")
    assert {name: (tree / name).read_bytes() for name in before} and (tree / "file1.txt").read_text() != "new\n"
    assert not (tree / "added").exists() and (tree / "file3.txt").exists()
    assert run_git(place.top, "rev-parse", "release") == other
    assert entries(place.home) == [] and not list((place.top / ".git").glob("**/*.lock"))


# Ways to change a checkout


def modified(top: Path) -> None:
    (top / "file2.txt").write_text("mine\n")


def modified_quickly(top: Path) -> None:
    """Change a file within the same second and size. Only the time in the index shows it."""
    data = (top / "file2.txt").read_bytes()
    (top / "file2.txt").write_bytes(data[::-1])


def staged(top: Path) -> None:
    (top / "file2.txt").write_text("mine\n")
    run_git(top, "add", "file2.txt")


def staged_and_put_back(top: Path) -> None:
    data = (top / "file2.txt").read_text()
    staged(top)
    (top / "file2.txt").write_text(data)


def untracked_in_the_way(top: Path) -> None:
    (top / "added").mkdir()
    (top / "added" / "new.txt").write_text("mine\n")


def a_file_where_a_folder_goes(top: Path) -> None:
    (top / "added").write_text("mine\n")


def a_link_where_a_folder_goes(top: Path) -> None:
    (top / "added").symlink_to("folder")


def ignored_in_the_way(top: Path) -> None:
    untracked_in_the_way(top)
    (top / ".git" / "info" / "exclude").write_text("added/\n")


def deleted(top: Path) -> None:
    (top / "file2.txt").unlink()


def deleted_and_staged(top: Path) -> None:
    run_git(top, "rm", "--quiet", "file2.txt")


def renamed(top: Path) -> None:
    run_git(top, "mv", "file2.txt", "other.txt")


def made_executable(top: Path) -> None:
    (top / "tool.sh").chmod(0o755)


def in_conflict(top: Path) -> None:
    """Leave a conflict as `git merge --squash` does: no operation in progress, and a file with three stages."""
    blob = run_git(top, "rev-parse", "main:file2.txt")
    lines = [f"0 {'0' * 40}\tfile2.txt", *(f"100644 {blob} {stage}\tfile2.txt" for stage in (1, 2, 3))]
    run_git(top, "update-index", "--index-info", stdin="".join(f"{line}\n" for line in lines).encode())


def merging(top: Path) -> None:
    branch_with(top, "clash", {"x.txt": "theirs\n"})
    run_git(top, "merge", "--quiet", "--no-commit", "--no-ff", "clash")


def rebasing(top: Path) -> None:
    run_git(top, "rebase", "--quiet", "--exec", "false", "HEAD~1", check=False)


def bisecting(top: Path) -> None:
    run_git(top, "bisect", "start")


def picking(top: Path) -> None:
    branch_with(top, "clash", {"file2.txt": "a\n"}, base="main~1")
    (top / "file2.txt").write_text("b\n")
    run_git(top, "commit", "--quiet", "-amb")
    run_git(top, "reset", "--quiet", "--soft", "HEAD~1")
    run_git(top, "reset", "--quiet", "--hard")
    (top / ".git" / "CHERRY_PICK_HEAD").write_text(run_git(top, "rev-parse", "clash") + "\n")


def meant_to_be_added(top: Path) -> None:
    (top / "soon.txt").write_text("")
    run_git(top, "add", "--intent-to-add", "soon.txt")


def overlooked(top: Path) -> None:
    run_git(top, "update-index", "--assume-unchanged", "file2.txt")
    (top / "file2.txt").write_text("mine\n")


def sparse(top: Path) -> None:
    run_git(top, "sparse-checkout", "set", "--no-cone", "/file1.txt")


def another_type(top: Path) -> None:
    (top / "file2.txt").unlink()
    (top / "file2.txt").symlink_to("file1.txt")


def no_index(top: Path) -> None:
    (top / ".git" / "index").unlink()


def git_at_work(top: Path) -> None:
    (top / ".git" / "index.lock").write_text("")


def split_index(top: Path) -> None:
    run_git(top, "update-index", "--split-index")
    modified(top)


WAYS: list[tuple[Callable[[Path], None], str]] = [
    (modified, "file2.txt is changed"),
    (modified_quickly, "file2.txt is changed"),
    (staged, "file2.txt is changed"),
    (staged_and_put_back, "file2.txt is changed"),
    (untracked_in_the_way, "added/new.txt is in the way"),
    (a_file_where_a_folder_goes, "added is in the way"),
    (a_link_where_a_folder_goes, "added is in the way"),
    (ignored_in_the_way, "added/new.txt is in the way"),
    (deleted, "file2.txt is changed"),
    (deleted_and_staged, "file2.txt is changed"),
    (renamed, "file2.txt is changed"),
    (made_executable, "tool.sh is changed"),
    (in_conflict, "it has an unresolved conflict: file2.txt"),
    (merging, "a merge is in progress"),
    (rebasing, "a rebase is in progress"),
    (bisecting, "a bisect is in progress"),
    (picking, "a cherry-pick is in progress"),
    (meant_to_be_added, "soon.txt is changed"),
    (overlooked, "git ignores changes of file2.txt"),
    (sparse, "git ignores changes of"),
    (another_type, "file2.txt is changed"),
    (no_index, "is changed there"),
    (git_at_work, "git is running there"),
    (split_index, "file2.txt is changed"),
]


@pytest.mark.parametrize(("way", "why"), WAYS, ids=[way.__name__ for way, _ in WAYS])
def test_changed_checkout_stays_byte_for_byte(place: Place, way: Callable[[Path], None], why: str) -> None:
    new = target(place)
    way(place.top)
    old = run_git(place.top, "rev-parse", "main")
    said, before = status(place.top), fingerprint(place.top)
    done = moved(place, new)
    assert why in done.why_not and done.ref == "refs/fleet/merged/main"
    assert run_git(place.top, "rev-parse", "refs/fleet/merged/main") == new
    assert fingerprint(place.top) == before
    assert status(place.top) == said and run_git(place.top, "rev-parse", "main") == old
    assert entries(place.home) == []


@pytest.mark.parametrize("way", ["another commit", "a changed file", "a new file", "unchanged", "it changes itself"])
def test_changed_submodule_prevents_a_move(tmp_path: Path, way: str) -> None:
    inner = make_repository(tmp_path / "inner")
    commit(inner, "second.txt", "x\n")

    def make(path: Path) -> Path:
        made = make_repository(path)
        words = ("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub")
        subprocess.run(["git", *words], cwd=made, env=os.environ | IDENTITY, check=True)
        run_git(made, "commit", "--quiet", "-msub")
        return made

    place = Place(tmp_path, make)
    new = target(place)
    sub = place.top / "sub"
    if way == "another commit":
        run_git(sub, "checkout", "--quiet", "HEAD~1")
    elif way == "a changed file":
        (sub / "file1.txt").write_text("mine\n")
    elif way == "a new file":
        (sub / "mine.txt").write_text("mine\n")
    elif way == "it changes itself":
        tree = run_git(place.top, "ls-tree", "main").replace(
            run_git(sub, "rev-parse", "HEAD"), run_git(sub, "rev-parse", "HEAD~1")
        )
        made = run_git(place.top, "mktree", stdin=os.fsencode(tree + "\n"))
        new = run_git(place.top, "commit-tree", "-p", "main", "-mx", made)
    before, said = fingerprint(place.top), status(place.top)
    done = moved(place, new)
    if way == "unchanged":
        assert done.why_not == ""
        assert_at(place, new)
        return
    assert ("and sub is changed" if way == "another commit" else "the submodule sub") in done.why_not
    assert fingerprint(place.top) == before and status(place.top) == said


@pytest.mark.parametrize("where", ["the tree", "info/attributes"])
def test_checkout_is_not_moved_when_only_a_user_filter_could_write_it(place: Place, where: str) -> None:
    text = "*.txt filter=crypt\n"
    if where == "the tree":
        new = target(place, {".gitattributes": text, "secret.txt": "cipher\n"})
    else:
        new = target(place)
        (place.top / ".git" / "info" / "attributes").write_text(text)
    before, said = fingerprint(place.top), status(place.top)
    why = moved(place, new).why_not
    assert ("filter crypt" in why) if where == "the tree" else ("info/attributes" in why)
    assert fingerprint(place.top) == before and status(place.top) == said


def test_checkout_is_not_moved_when_an_agent_works_in_it_or_it_is_missing(place: Place) -> None:
    tree = place.folder / "tree"
    run_git(place.top, "worktree", "add", "--quiet", "-b", "release", str(tree))
    new = target(place)
    assert "an agent works" in moved(place, new, "release", in_use={str(tree)}).why_not
    tree.rename(place.folder / "elsewhere")
    assert "its folder is missing" in moved(place, new, "release").why_not
    assert run_git(place.top, "rev-parse", "release") == place.base


def test_worktree_with_changed_pointers_is_not_moved(place: Place) -> None:
    tree = place.folder / "tree"
    run_git(place.top, "worktree", "add", "--quiet", "-b", "release", str(tree))
    (tree / ".git").write_text(f"gitdir: {place.folder}/evil\n")
    before = fingerprint(tree)
    assert ".git of that worktree changed" in moved(place, target(place), "release").why_not
    assert fingerprint(tree) == before


def test_checkout_whose_index_is_a_link_is_not_moved(place: Place) -> None:
    index, other = place.top / ".git" / "index", place.folder / "other"
    index.rename(other)
    index.symlink_to(other)
    new, before = target(place), other.read_bytes()
    assert "index of that worktree changed" in moved(place, new).why_not
    assert other.read_bytes() == before and index.is_symlink()


def test_checkout_with_a_separate_git_directory_is_not_moved(tmp_path: Path) -> None:
    def make(path: Path) -> Path:
        made = make_repository(path)
        run_git(made, "init", "--quiet", "--separate-git-dir", str(tmp_path / "apart"))
        return made

    place = Place(tmp_path, make)
    assert place.repository.top == place.repository.common
    before = fingerprint(place.top)
    assert "unknown location" in moved(place, target(place)).why_not
    assert fingerprint(place.top) == before


@pytest.mark.parametrize("branch", ["release", "main"])
def test_waiting_ends_when_a_killed_git_left_its_lock(place: Place, branch: str) -> None:
    run_git(place.top, "branch", "release")
    for name in (f"refs/heads/{branch}.lock", "index.lock"):
        lock = place.top / ".git" / name
        lock.write_text("")
        os.utime(lock, (0, 0))
    new = target(place)
    assert moved(place, new, branch).why_not == ""
    assert run_git(place.top, "rev-parse", branch) == new


def test_nothing_changes_when_git_holds_the_lock_of_the_branch(place: Place) -> None:
    new = target(place)
    (place.top / ".git" / "refs" / "heads" / "main.lock").write_text("")
    before = fingerprint(place.top)
    with pytest.raises(RepositoryBusy, match=r"main\.lock"):
        moved(place, new)
    assert fingerprint(place.top) == before and entries(place.home) == []
