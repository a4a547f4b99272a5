"""A repository that another user owns: fleet ignores its settings, as git does."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.git.repository import NotOwned, Repository, find_repository
from fleet.git.view import View
from fleet.home import Home
from needs import require
from projects import orders, use_shell_coder
from repositories import commit, make_repository, run_git
from terminals import Terminals
from terminals import home as at_home

__all__ = ["at_home"]

STRANGER = 12345
CREATE = ("bd", "create", "work", "--workspace", "worktree", "--cwd")


def give_away(*paths: Path) -> None:
    """Give files, and everything below them, to another user."""
    for path in paths:
        for each in (path, *path.rglob("*")) if path.is_dir() and not path.is_symlink() else (path,):
            os.chown(each, STRANGER, STRANGER, follow_symlinks=False)


@pytest.fixture(autouse=True)
def as_root() -> None:
    require(os.geteuid() == 0, "files of another user (needs root)")


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a user's folder without settings of git."""
    for name in [name for name in os.environ if name.startswith(("GIT_", "XDG_CONFIG", "SUDO_"))]:
        monkeypatch.delenv(name)
    user = tmp_path / "user"
    user.mkdir()
    monkeypatch.setenv("HOME", str(user))
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", str(tmp_path / "system"))
    yield user


def is_used_by_git(path: Path) -> bool:
    return subprocess.run(["git", "rev-parse", "--git-dir"], cwd=path, capture_output=True).returncode == 0


def is_used_by_fleet(path: Path) -> bool:
    try:
        find_repository(str(path))
    except NotOwned as error:
        assert "another user" in str(error) and "git config --global --add safe.directory" in error.hint
        return False
    return True


def test_nothing_of_another_users_repository_is_run(at_home: Terminals) -> None:
    home, marker = at_home, at_home.fleet.user / "marker"
    use_shell_coder(home)
    home.fleet.ok("create", "mine", "-p", orders("echo x > mine.txt"), "--headless")
    home.wait_listed("mine", "finished")
    home.fleet.ok("run", "stop")
    before = home.told(*CREATE, str(home.repo), "-d", orders("true"))["id"]
    commit(home.repo, ".gitattributes", "* filter=evil\n")
    for name in ("smudge", "clean", "process"):
        run_git(home.repo, "config", f"filter.evil.{name}", f"touch {marker}; cat")
    hook = home.repo / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    give_away(home.repo)
    for command in (
        ("create", "theirs", "-p", "x"),
        ("fanout", "2", "theirs", "-p", "x"),
        ("merge", "mine"),
        ("diff", "mine"),
        ("trust",),
        ("trust", "--show"),
        ("init",),
    ):
        done = home.fleet(*command)
        assert done.code and "safe.directory" in done.err, (command, done)
    home.fleet.ok("list")
    home.fleet.ok("run", "start")
    found = home.wait_status(before, "blocked", "closed")
    assert found["status"] == "blocked" and "another user" in found["reason"]
    assert not marker.exists()


def test_owner_of_each_part_counts(user: Path, tmp_path: Path) -> None:
    home = Home(str(tmp_path / "home"))
    home.make()
    main = make_repository(tmp_path / "main")
    linked = tmp_path / "linked"
    run_git(main, "worktree", "add", "--quiet", str(linked))
    bare = tmp_path / "bare.git"
    run_git(tmp_path, "clone", "--quiet", "--bare", str(main), str(bare))
    places = (main, linked, bare)
    assert all(map(is_used_by_fleet, places))
    admin = main / ".git" / "worktrees" / "linked"
    parts: list[tuple[Path, Path]] = [(main, main), (main, main / ".git")]
    parts += [(linked, linked), (linked, linked / ".git"), (linked, admin), (bare, bare)]
    for place, part in parts:
        os.chown(part, STRANGER, STRANGER)
        assert not is_used_by_git(place) and not is_used_by_fleet(place), (place, part)
        os.chown(part, 0, 0)
    assert all(map(is_used_by_fleet, places))
    # Also if fleet does not search for the repository because it is on record.
    os.chown(main / ".git", STRANGER, STRANGER)
    with pytest.raises(NotOwned):
        View(home, Repository(top=str(main), common=str(main / ".git"))).commit_of("main")


def test_safe_directory_means_the_same_as_to_git(user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = make_repository(tmp_path / "some where" / "repo")
    (tmp_path / "link").symlink_to(repo)
    give_away(repo)
    settings, system = user / ".gitconfig", tmp_path / "system"
    used = []
    for global_, of_system in (
        ([], []),
        (["*"], []),
        ([], ["*"]),
        ([str(repo)], []),
        ([str(tmp_path / "link")], []),
        ([f"{repo}/"], []),
        ([f"{repo.parent}/*"], []),
        ([f"{tmp_path}/*"], []),
        ([str(repo.parent)], []),
        ([str(tmp_path / "other")], []),
        (["*", ""], []),
        (["", "*"], []),
        ([""], [str(repo)]),
        (["~/nowhere"], []),
    ):
        for path, values in ((settings, global_), (system, of_system)):
            path.write_text("".join(f'[safe]\n\tdirectory = "{value}"\n' for value in values))
        assert is_used_by_fleet(repo) == is_used_by_git(repo), (global_, of_system)
        used.append(is_used_by_fleet(repo))
    assert used[:4] == [False, True, True, True] and used[9:13] == [False, False, True, False]
    settings.unlink()
    system.unlink()
    with (repo / ".git" / "config").open("a") as config:
        config.write("[safe]\n\tdirectory = *\n")
    assert not is_used_by_fleet(repo), "a repository does not vouch for itself"
    for variables in (
        {"SUDO_UID": str(STRANGER)},
        {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"},
    ):
        with monkeypatch.context() as changed:
            for name, value in variables.items():
                changed.setenv(name, value)
            assert is_used_by_git(repo) and is_used_by_fleet(repo), variables
    with monkeypatch.context() as changed:
        changed.setenv("SUDO_UID", "54321")
        assert not is_used_by_fleet(repo)
