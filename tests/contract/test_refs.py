"""Tips of branches are what git says they are, and commits of fleet's are what git would have made."""

import threading
import time
from pathlib import Path

import pytest

from fleet.home import Home
from fleet.workspaces.known import is_known
from fleet.workspaces.objects import tree_of, write_commit, written
from fleet.workspaces.refs import tip_of
from fleet.workspaces.repository import Repository, find_repository
from fleet.workspaces.sharing import Shared
from fleet.workspaces.view import View
from fleet.workspaces.work_done import newest_commits
from repositories import commit, make_repository, run_git


class Scene:
    """A repository with two commits."""

    def __init__(self, folder: Path) -> None:
        self.top = make_repository(folder / "repo")
        self.repository: Repository = find_repository(str(self.top))
        self.view = View(Home(str(folder / "home")), self.repository)
        self.first = run_git(self.top, "rev-parse", "HEAD")
        self.second = commit(self.top, "more.txt", "more\n")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_branch_that_is_another_name_for_one_is_told_by_git(scene: Scene) -> None:
    run_git(scene.top, "branch", "real", scene.first)
    run_git(scene.top, "branch", "alias", scene.first)
    run_git(scene.top, "pack-refs", "--all", "--prune")
    run_git(scene.top, "symbolic-ref", "refs/heads/alias", "refs/heads/real")
    run_git(scene.top, "update-ref", "refs/heads/real", scene.second)
    assert scene.view.tip_of("alias") == scene.second
    assert scene.view.resolve("refs/heads/alias") == [scene.second]


def test_a_commit_is_the_one_that_git_would_have_written(scene: Scene) -> None:
    tree = run_git(scene.top, "rev-parse", f"{scene.second}^{{tree}}")
    for message in ("fleet: what x left", "ünï \u2028 line\n\nand more\n", ""):
        made = write_commit(scene.view, tree, (scene.second, scene.first), message)
        assert run_git(scene.top, "cat-file", "-t", made) == "commit"
        when = run_git(scene.top, "log", "-1", "--format=%ad", "--date=raw", made)
        who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in (
            ("NAME", "fleet"), ("EMAIL", "fleet@localhost"), ("DATE", when))}  # fmt: skip
        words = ("commit-tree", tree, "-p", scene.second, "-p", scene.first, "-F", "-")
        assert scene.view.git(*words, env=who, stdin=message.encode()).decode().strip() == made
        assert is_known(made) and tree_of(scene.view, made) == tree
    run_git(scene.top, "fsck", "--strict")


def test_what_fleet_committed_alone_is_told_as_git_tells_it(scene: Scene) -> None:
    tree = tree_of(scene.view, scene.first)
    made = write_commit(scene.view, tree, (scene.second,), "fleet: what t-1/1 left uncommitted")
    assert written(made) is not None
    told = newest_commits(scene.view, scene.second, made)
    form = "%H|%an|%aI|%s"
    assert "|".join((told[0].id, told[0].author, told[0].at, told[0].subject)) == run_git(
        scene.top, "log", "-1", f"--format={form}", made
    )
    assert [each.id for each in newest_commits(scene.view, scene.first, made)] == [made, scene.second]


def test_a_repository_with_longer_names_is_left_to_git(tmp_path: Path) -> None:
    top = tmp_path / "long"
    run_git(tmp_path, "init", "--quiet", "--object-format=sha256", "--initial-branch=main", str(top))
    first = commit(top, "a.txt", "a\n")
    repository = find_repository(str(top))
    view = View(Home(str(tmp_path / "home")), repository)
    made = write_commit(view, tree_of(view, first), (first,), "words")
    assert len(made) == 64 and run_git(top, "cat-file", "-t", made) == "commit"


def test_tips_are_told_as_they_stand(scene: Scene) -> None:
    assert tip_of(scene.repository, "main") == scene.second
    assert tip_of(scene.repository, "none") is None
    (Path(scene.repository.common) / "refs" / "heads" / "bad").write_text("nonsense\n")
    assert tip_of(scene.repository, "bad") == "nonsense"
    assert scene.view.tip_of("bad") is None
    assert scene.view.resolve("refs/heads/main", "refs/heads/none") == [scene.second, None]


def test_those_who_ask_together_share_looks_that_began_after_they_asked() -> None:
    shared: Shared[int] = Shared()
    looks: list[float] = []

    def look() -> int:
        looks.append(time.monotonic())
        while len(looks) == 1 and shared._looks["key"].asking < 20:
            time.sleep(0.001)
        return len(looks)

    asked: list[tuple[float, int]] = []

    def ask() -> None:
        began = time.monotonic()
        asked.append((began, shared.look("key", look)))

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(looks) == 2 and len(asked) == 20
    assert all(looks[number - 1] >= began for began, number in asked)


def test_nobody_is_given_what_was_found_before_they_asked() -> None:
    """The first look finds something, the second fails: whoever waited for the second looks again."""
    shared: Shared[str] = Shared()
    begun, go_on, again, fail_now = (threading.Event() for _ in range(4))

    def old() -> str:
        begun.set()
        go_on.wait(10)
        return "old"

    def failing() -> str:
        again.set()
        fail_now.wait(10)
        raise OSError("gone")

    found: list[str] = []
    calls = iter((failing, lambda: "new"))

    def ask() -> None:
        try:
            found.append(shared.look("key", lambda: next(calls)()))
        except OSError:
            found.append("failed")

    first = threading.Thread(target=lambda: found.append(shared.look("key", old)))
    first.start()
    begun.wait(10)
    waiting = [threading.Thread(target=ask) for _ in range(2)]
    for thread in waiting:
        thread.start()
    while shared._looks["key"].asking < 3:
        time.sleep(0.001)
    go_on.set()
    again.wait(10)
    fail_now.set()
    for thread in (first, *waiting):
        thread.join()
    assert sorted(found) == ["failed", "new", "old"]


def test_a_look_that_fails_fails_for_whoever_looked_and_others_look_themselves() -> None:
    shared: Shared[int] = Shared()
    begun, go_on = threading.Event(), threading.Event()

    def fail() -> int:
        begun.set()
        go_on.wait(10)
        raise OSError("gone")

    failed: list[BaseException] = []

    def first() -> None:
        with pytest.raises(OSError, match="gone") as caught:
            shared.look("key", fail)
        failed.append(caught.value)

    thread = threading.Thread(target=first)
    thread.start()
    begun.wait(10)
    other: list[int] = []
    waiting = threading.Thread(target=lambda: other.append(shared.look("key", lambda: 7)))
    waiting.start()
    go_on.set()
    thread.join()
    waiting.join()
    assert len(failed) == 1 and other == [7]
