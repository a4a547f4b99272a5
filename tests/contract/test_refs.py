"""Tips of branches equal those that git reports."""

import threading
import time
from pathlib import Path

import pytest

from fleet.git.repository import Repository, find_repository
from fleet.git.sharing import SharedCalls
from fleet.git.view import View, branch_tip
from fleet.home import Home
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


def test_symbolic_branch_is_resolved_by_git(scene: Scene) -> None:
    run_git(scene.top, "branch", "real", scene.first)
    run_git(scene.top, "branch", "alias", scene.first)
    run_git(scene.top, "pack-refs", "--all", "--prune")
    run_git(scene.top, "symbolic-ref", "refs/heads/alias", "refs/heads/real")
    run_git(scene.top, "update-ref", "refs/heads/real", scene.second)
    assert scene.view.tip_of("alias") == scene.second
    assert scene.view.resolve("refs/heads/alias") == [scene.second]
    assert branch_tip(scene.repository, "alias") == scene.second


def test_branch_tip_matches_git_for_present_missing_and_broken_refs(scene: Scene) -> None:
    assert branch_tip(scene.repository, "main") == scene.second
    assert branch_tip(scene.repository, "none") is None
    (Path(scene.repository.common) / "refs" / "heads" / "bad").write_text("nonsense\n")
    assert branch_tip(scene.repository, "bad") is None
    assert scene.view.tip_of("bad") is None
    assert scene.view.resolve("refs/heads/main", "refs/heads/none") == [scene.second, None]


def test_concurrent_callers_share_a_look_that_began_after_they_asked() -> None:
    shared: SharedCalls[int] = SharedCalls()
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


def test_caller_never_gets_a_result_from_before_it_asked() -> None:
    """The first look finds something and the second fails. Callers that waited for the second look again."""
    shared: SharedCalls[str] = SharedCalls()
    begun, go_on, again, fail_now = (threading.Event() for _ in range(4))

    def old() -> str:
        begun.set()
        go_on.wait(60)
        return "old"

    def failing() -> str:
        again.set()
        fail_now.wait(60)
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
    begun.wait(60)
    waiting = [threading.Thread(target=ask) for _ in range(2)]
    for thread in waiting:
        thread.start()
    while shared._looks["key"].asking < 3:
        time.sleep(0.001)
    go_on.set()
    again.wait(60)
    fail_now.set()
    for thread in (first, *waiting):
        thread.join()
    assert sorted(found) == ["failed", "new", "old"]


def test_failed_look_raises_only_for_its_own_caller() -> None:
    shared: SharedCalls[int] = SharedCalls()
    begun, go_on = threading.Event(), threading.Event()

    def fail() -> int:
        begun.set()
        go_on.wait(60)
        raise OSError("gone")

    failed: list[BaseException] = []

    def first() -> None:
        with pytest.raises(OSError, match="gone") as caught:
            shared.look("key", fail)
        failed.append(caught.value)

    thread = threading.Thread(target=first)
    thread.start()
    begun.wait(60)
    other: list[int] = []
    waiting = threading.Thread(target=lambda: other.append(shared.look("key", lambda: 7)))
    waiting.start()
    go_on.set()
    thread.join()
    waiting.join()
    assert len(failed) == 1 and other == [7]
