"""Commands that an agent wrote into every part of git it can reach. fleet must run none of them."""

import os
from pathlib import Path

import pytest

from contract.worktree_builders import BRANCH, Scene, write
from fleet.git import clean_checkout
from fleet.git.diffs import diff, shortstat
from fleet.git.save.leftovers import commit_leftovers
from fleet.git.save.snapshot import Snapshot
from fleet.git.save.worktree import forget, saved_refs
from repositories import commit, make_repository, run_git

HOOKS = (
    *("pre-commit", "post-commit", "commit-msg", "prepare-commit-msg", "post-checkout", "post-index-change"),
    *("reference-transaction", "post-update", "pre-auto-gc", "fsmonitor-watchman", "post-rewrite", "post-merge"),
)
#: Settings that name a program, each with the name of its mark.
SETTINGS = {
    "core.fsmonitor": "fsmonitor",
    "core.pager": "pager",
    "core.editor": "editor",
    "core.sshCommand": "ssh",
    "core.alternateRefsCommand": "alternate-refs",
    "core.askPass": "askpass",
    "filter.evil.clean": "clean",
    "filter.evil.smudge": "smudge",
    "filter.evil.process": "process",
    "filter.lfs.clean": "lfs-clean",
    "filter.lfs.smudge": "lfs-smudge",
    "diff.evil.textconv": "textconv",
    "diff.evil.command": "diff-command",
    "diff.external": "diff-external",
    "merge.evil.driver": "merge",
    "gpg.program": "gpg",
    "credential.helper": "credential",
    "uploadpack.packObjectsHook": "pack-objects",
    "alias.status": "alias",
}
ATTRIBUTES = "*.evil filter=evil diff=evil merge=evil\n*.lfs filter=lfs\n*.txt diff=evil\n"


class Trap:
    """Programs that leave a mark when they run."""

    def __init__(self, folder: Path) -> None:
        self.marks = folder / "marks"
        self.marks.mkdir()
        self._programs = folder / "programs"

    def program(self, name: str) -> str:
        path = self._programs / name
        write(path, f"#!/bin/sh\necho ran >> '{self.marks}/{name}'\ncat\n")
        path.chmod(0o755)
        return str(path)

    def ran(self) -> list[str]:
        return sorted(path.name for path in self.marks.iterdir())

    def arm(self, git_folder: Path, name: str) -> None:
        """Put a command into each part of a git folder that can hold one."""
        for key, what in SETTINGS.items():
            bang = "!" if key.startswith(("alias", "credential")) else ""
            setting = bang + self.program(f"{name}-{what}")
            run_git(git_folder.parent, "config", "--file", str(git_folder / "config"), key, setting)
        run_git(git_folder.parent, "config", "--file", str(git_folder / "config"), "commit.gpgSign", "true")
        for hook in HOOKS:
            place = git_folder / "hooks" / hook
            write(place, Path(self.program(f"{name}-{hook}")).read_bytes())
            place.chmod(0o755)
        write(git_folder / "info" / "attributes", ATTRIBUTES)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path)


def fill(scene: Scene) -> None:
    write(scene.work / ".gitattributes", ATTRIBUTES)
    write(scene.work / "file1.txt", "changed")
    for name in ("a.evil", "b.lfs", "new.txt", ".env"):
        write(scene.work / name, f"I am {name}")


def do_everything(scene: Scene) -> list[str]:
    """Do everything that fleet does with a worktree. Return the paths that were found to save."""
    place = scene.place()
    tree = Snapshot(scene.view, place, scene.index_file).tree(scene.base)
    shortstat(scene.view, scene.base, tree)
    diff(scene.view, scene.base, tree)
    left = commit_leftovers(scene.home, scene.view, place, scene.index_file, "fleet: what was left")
    with clean_checkout.clean_folder(scene.view, str(scene.folder / "clean")):
        clean_checkout.fill(scene.view, left.commit or scene.base, str(scene.folder / "clean"))
    saved = scene.save()
    assert saved.commit is not None
    told = scene.view.text("ls-tree", "-r", "--name-only", saved.commit).splitlines()
    for one in saved_refs(scene.view):
        forget(scene.view, one.ref)
    return told


def test_fleet_runs_no_program_configured_in_the_repository(scene: Scene, trap: Trap) -> None:
    fill(scene)
    trap.arm(scene.top / ".git", "main")
    assert {"a.evil", "b.lfs", ".env"} <= set(do_everything(scene))
    assert trap.ran() == []
    scene.git("status", check=False)
    scene.git("add", "--all", check=False)
    scene.git("diff", "HEAD", check=False)
    assert {"main-fsmonitor", "main-clean"} & set(trap.ran()), "the trap itself must work"


def test_fleet_runs_no_program_of_the_repository_that_the_git_pointer_names(scene: Scene, trap: Trap) -> None:
    fill(scene)
    evil = make_repository(scene.folder / "evil")
    trap.arm(evil / ".git", "pointer")
    write(scene.work / ".git", f"gitdir: {evil / '.git'}\n")
    assert {"a.evil", "b.lfs", ".env"} <= set(do_everything(scene))
    assert trap.ran() == []
    scene.git("status", check=False)
    assert "pointer-fsmonitor" in trap.ran(), "the trap itself must work"


def test_fleet_runs_no_program_of_the_repository_that_commondir_names(scene: Scene, trap: Trap) -> None:
    fill(scene)
    evil = make_repository(scene.folder / "evil")
    run_git(evil, "fetch", "--quiet", str(scene.top), f"{BRANCH}:{BRANCH}")
    trap.arm(evil / ".git", "common")
    write(scene.admin / "commondir", f"{evil / '.git'}\n")
    write(scene.admin / "config.worktree", f"[core]\n\tfsmonitor = {trap.program('config-worktree')}\n")
    assert {"a.evil", "b.lfs", ".env"} <= set(do_everything(scene))
    assert trap.ran() == []
    scene.git("status", check=False)
    assert "common-fsmonitor" in trap.ran(), "the trap itself must work"


def test_fleet_runs_no_program_of_nested_repositories(scene: Scene, trap: Trap) -> None:
    fill(scene)
    inner = make_repository(scene.work / "inner")
    own = commit(inner, "own.txt", "own")
    elsewhere = make_repository(scene.folder / "elsewhere")
    trap.arm(elsewhere / ".git", "elsewhere")
    write(inner / ".git" / "objects" / "info" / "alternates", f"{elsewhere / '.git' / 'objects'}\n")
    write(inner / ".gitattributes", ATTRIBUTES)
    write(inner / "a.evil", "evil")
    trap.arm(inner / ".git", "inner")
    odd = make_repository(scene.work / "odd")
    write(odd / ".git" / "commondir", f"{elsewhere / '.git'}\n")
    kept = do_everything(scene)
    assert {"inner/own.txt", "inner/a.evil", "odd/file1.txt"} <= set(kept)
    assert run_git(scene.top, "cat-file", "-t", own) == "commit"
    assert trap.ran() == []
    run_git(inner, "-c", "core.pager=", "add", "--all", check=False)
    assert {"inner-fsmonitor", "inner-clean"} & set(trap.ran()), "the trap itself must work"


def test_fleet_runs_no_program_of_a_submodule(scene: Scene, trap: Trap) -> None:
    library = make_repository(scene.folder / "library")
    scene.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib")
    scene.git("commit", "--quiet", "--message=a submodule")
    fill(scene)
    commit(scene.work / "lib", "own.txt", "own")
    commit(scene.work / "lib", "a.evil", "evil")
    scene.git("commit", "--quiet", "--all", "--message=the submodule as it is")
    write(scene.work / "lib" / "a.evil", "live")  # of the same length, so git must read the file to notice the change
    write(scene.work / "lib" / "file1.txt", "changed")
    trap.arm(scene.admin / "modules" / "lib", "submodule")
    assert {"lib/own.txt", "lib/file1.txt", "lib/a.evil"} <= set(do_everything(scene))
    assert trap.ran() == []
    scene.git("-c", "core.fsmonitor=false", "status", check=False)
    assert {"submodule-clean", "submodule-process"} & set(trap.ran()), "the trap itself must work"


def test_fleet_runs_no_program_of_a_repository_that_lends_objects(scene: Scene, trap: Trap) -> None:
    fill(scene)
    elsewhere = make_repository(scene.folder / "elsewhere")
    trap.arm(elsewhere / ".git", "elsewhere")
    trap.arm(scene.top / ".git", "main")
    write(scene.top / ".git" / "objects" / "info" / "alternates", f"{elsewhere / '.git' / 'objects'}\n")
    do_everything(scene)
    assert trap.ran() == []


@pytest.mark.parametrize("what", ["folder", "pipe", "junk", "gone", "link"])
def test_leftovers_are_committed_when_pointer_or_index_is_damaged(scene: Scene, what: str) -> None:
    fill(scene)
    for path in (scene.work / ".git", scene.admin / "index"):
        path.unlink()
        match what:
            case "folder":
                path.mkdir()
            case "pipe":
                os.mkfifo(path)
            case "junk":
                write(path, b"\xff\0" * 500)
            case "link":
                path.symlink_to(scene.folder / "outside")
    write(scene.folder / "outside", "the user's own")
    assert {"a.evil", ".env"} <= set(do_everything(scene))
    assert (scene.folder / "outside").read_text() == "the user's own"
