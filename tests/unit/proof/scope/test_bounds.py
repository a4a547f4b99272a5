"""The owners of the paths around a run, from the real file system."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from fleet.core.jsontext import encode
from fleet.core.workspace import Workspace
from fleet.home import Home
from fleet.proof.scope import bounds as scope
from fleet.proof.scope.bounds import DELETES, DOUBTFUL, FINE, MAKES, SURE, WRITES, WriteBounds, bounds_of
from repositories import run_git
from workplaces import Place


class Ground:
    """A user's home with a project, a fleet home, two worktrees of fleet and one of the user."""

    def __init__(self, folder: Path) -> None:
        self.user = folder / "user"
        self.user.mkdir()
        self.place = Place(self.user)
        added = self.place.add("mine")
        self.place.add("other")
        self.tree, self.other = str(self.place.path("mine")), str(self.place.path("other"))
        self.home = Home(str(folder / "fleet"))
        self.task = f"{self.home.root}/tasks/fleet-1"
        self.env = {"HOME": str(self.user), "TMPDIR": str(folder / "temporary")}
        self.space = Workspace(
            task_id="fleet-1",
            repo=self.place.repository.top,
            common=self.place.repository.common,
            path=self.tree,
            branch="mine",
            made_at=datetime(2026, 11, 1, tzinfo=UTC),
            notes=encode({"admin": added.admin}),
        )

    def bounds(self) -> WriteBounds:
        return bounds_of(self.home, self.task, self.tree, self.space, self.env)


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    return Ground(tmp_path_factory.mktemp("ground"))


def test_each_path_has_an_owner(ground: Ground) -> None:
    bounds, top = ground.bounds(), ground.place.top
    assert {
        path: bounds.whose(path)
        for path in (
            *(ground.tree, f"{ground.tree}/a", f"{ground.tree}/.git", ground.other, f"{ground.other}/a"),
            *(f"{top}/a", f"{top}/.git/config", f"{top}/.git/worktrees/mine/index", f"{ground.user}/a"),
            *(f"{ground.home.root}/fleet.db", f"{ground.task}/artifacts/a", f"{ground.home.root}/tasks/x/a"),
            *(ground.env["TMPDIR"], "/etc/hosts", "/dev/null", "/elsewhere/a"),
        )
    } == {
        ground.tree: scope.OWN,
        f"{ground.tree}/a": scope.OWN,
        f"{ground.tree}/.git": scope.GIT,
        ground.other: scope.WORKTREE,
        f"{ground.other}/a": scope.WORKTREE,
        f"{top}/a": scope.CHECKOUT,
        f"{top}/.git/config": scope.GIT,
        f"{top}/.git/worktrees/mine/index": scope.OWN,
        f"{ground.user}/a": scope.HOME,
        f"{ground.home.root}/fleet.db": scope.FLEET,
        f"{ground.task}/artifacts/a": scope.OWN,
        f"{ground.home.root}/tasks/x/a": scope.FLEET,
        ground.env["TMPDIR"]: scope.OWN,
        "/etc/hosts": scope.SYSTEM,
        "/dev/null": scope.OWN,
        "/elsewhere/a": scope.ELSEWHERE,
    }


def test_worktree_created_later_is_recognized(ground: Ground) -> None:
    assert ground.bounds().whose(str(ground.place.path("later"))) == scope.WORKTREE


def test_new_and_moved_worktrees_are_found(ground: Ground, tmp_path: Path) -> None:
    home = Home(str(tmp_path / "fleet"))
    top, own, users = ground.place.top, tmp_path / "fleet" / "worktrees" / "a", tmp_path / "users"
    run_git(top, "worktree", "add", "--quiet", "-b", "own", str(own))
    bounds_of(home, ground.task, ground.tree, ground.space, ground.env)
    run_git(top, "worktree", "add", "--quiet", "-b", "users", str(users))
    found = bounds_of(home, ground.task, ground.tree, ground.space, ground.env)
    assert found.whose(f"{users}/x") == scope.WORKTREE
    assert found.whose(f"{own}/x") == scope.WORKTREE
    moved = tmp_path / "moved"
    run_git(top, "worktree", "move", str(own), str(moved))
    found = bounds_of(home, ground.task, ground.tree, ground.space, ground.env)
    assert found.whose(f"{moved}/x") == scope.WORKTREE
    for path in (moved, users):
        run_git(top, "worktree", "remove", str(path))


def test_branches_of_others_are_known(ground: Ground) -> None:
    bounds = ground.bounds()
    assert bounds.branch == "mine"
    assert sorted(bounds.others) == ["main", "other"]


def test_path_through_a_link_has_both_names(ground: Ground, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(ground.place.top)
    bounds = bounds_of(ground.home, ground.task, ground.tree, ground.space.replace(repo=str(link)), ground.env)
    assert bounds.whose(f"{link}/a") == bounds.whose(f"{ground.place.top}/a") == scope.CHECKOUT


def test_certainty_depends_on_action_and_path(ground: Ground) -> None:
    bounds, top, user = ground.bounds(), str(ground.place.top), str(ground.user)
    cases = [
        (SURE, DELETES, f"{top}/a"),
        (SURE, WRITES, f"{top}/a"),
        (DOUBTFUL, MAKES, f"{top}/a"),
        (SURE, WRITES, f"{top}/.git/hooks/pre-commit"),
        (SURE, DELETES, f"{top}/.git"),
        (DOUBTFUL, DELETES, f"{top}/.git/index.lock"),
        (DOUBTFUL, DELETES, f"{top}/.git/refs/heads/main.lock"),
        (DOUBTFUL, WRITES, f"{top}/.git/info/exclude"),
        (FINE, DELETES, f"{top}/.git/worktrees/mine/index.lock"),
        (SURE, WRITES, f"{user}/.bashrc"),
        (SURE, DELETES, f"{user}/letters"),
        (DOUBTFUL, WRITES, f"{user}/letters"),
        (DOUBTFUL, WRITES, f"{user}/.local/bin/tool"),
        (FINE, DELETES, f"{user}/.cache/pip"),
        (FINE, WRITES, f"{user}/.claude/plans/a.md"),
        (SURE, WRITES, f"{user}/.claude/settings.json"),
        (SURE, DELETES, "/etc/hosts"),
        (DOUBTFUL, WRITES, "/etc/hosts"),
        (DOUBTFUL, DELETES, "/elsewhere/a"),
        (FINE, WRITES, f"{ground.tree}/a"),
        (FINE, DELETES, ground.tree),
    ]
    assert [(bounds.judged(verb, path)[0], verb, path) for _, verb, path in cases] == cases


def test_ancestors_of_protected_paths_are_protected(ground: Ground) -> None:
    bounds = ground.bounds()
    for path in ("/", str(ground.user.parent), str(ground.user), str(ground.place.path("mine").parent)):
        assert bounds.judged(DELETES, path, whole=True)[0] == SURE, path
    assert bounds.judged(DELETES, ground.tree, whole=True)[0] == FINE
    assert bounds.judged(DELETES, "/elsewhere/a", whole=True)[0] == SURE
    assert bounds.judged(DELETES, "/elsewhere/a", whole=True, exact=False)[0] == DOUBTFUL


def test_directory_without_a_repository_has_bounds(tmp_path: Path) -> None:
    bounds = bounds_of(Home(str(tmp_path / "fleet")), str(tmp_path / "task"), str(tmp_path / "work"), None, {})
    assert bounds.judged(WRITES, f"{tmp_path}/work/a")[0] == FINE
    assert bounds.judged(DELETES, f"{tmp_path}/fleet/fleet.db")[0] == SURE


def test_branch_checked_out_by_the_run_belongs_to_it(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    run_git(Path(ground.tree), "checkout", "--quiet", "-b", "side")
    assert set(ground.bounds().others) == {"main", "other"}
