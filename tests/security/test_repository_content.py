"""A foreign repository with commands in every place from which git, or a program of git, might read them."""

from pathlib import Path

from contract.test_git_attacks import ATTRIBUTES, Trap
from projects import orders, use_shell_coder
from repositories import commit, make_repository, run_git
from terminals import Terminals
from terminals import home as at_home

__all__ = ["at_home"]

#: More settings that name a program; the last part of each identifies the program when it ran.
SETTINGS = (
    *("submodule.sub.update", "sequence.editor", "pager.diff", "interactive.diffFilter", "core.gitProxy"),
    *("diff.guitool", "trailer.x.command", "man.x.cmd", "gc.recentObjectsHook", "init.templateDir"),
)


def test_no_command_of_a_repository_is_run(at_home: Terminals, tmp_path: Path) -> None:
    home, trap = at_home, Trap(tmp_path)
    use_shell_coder(home)
    sub = make_repository(tmp_path / "sub")
    run_git(home.repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(sub), "sub")
    for name, command in (("update", "update"), ("ext", "url")):
        evil = f"!{trap.program(name)}" if command == "update" else f"ext::{trap.program(name)}"
        run_git(home.repo, "config", "--file", ".gitmodules", f"submodule.{name}.path", name)
        run_git(home.repo, "config", "--file", ".gitmodules", f"submodule.{name}.{command}", evil)
    # Settings and hooks that only look like git's, in case a checkout uses them.
    for name in ("HEAD", "config", "hooks/post-checkout", ".gitconfig", ".lfsconfig", ".worktreeinclude"):
        text = f"[core]\n\tfsmonitor = {trap.program('tree')}\n[lfs]\n\turl = ext::{trap.program('lfs')}\n"
        commit(home.repo, name, "ref: refs/heads/main\n" if name == "HEAD" else text)
        (home.repo / name).chmod(0o755)
    commit(home.repo, ".gitattributes", ATTRIBUTES)
    run_git(home.repo, "add", "--all")
    run_git(home.repo, "commit", "--quiet", "--message=all of it")
    # Changes that an archive could bring with its `.git`, or a program wrote there.
    trap.arm(home.repo / ".git", "main")
    (home.repo / ".git" / "info" / "attributes").unlink()  # with this file, fleet leaves the checkout to its user
    for key in SETTINGS:
        run_git(home.repo, "config", key, f"!{trap.program(key)}" if "update" in key else trap.program(key))
    included = tmp_path / "included"
    included.write_text(f"[core]\n\tfsmonitor = {trap.program('included')}\n\tpager = {trap.program('included')}\n")
    run_git(home.repo, "config", "includeIf.gitdir:**.path", str(included))
    run_git(home.repo, "config", "core.hooksPath", "hooks")
    for mark in trap.marks.iterdir():  # marks of the commands above, which obey
        mark.unlink()

    home.fleet.ok("create", "one", "-p", orders("echo x > file1.txt"), "--headless", "--verify", "true")
    assert home.wait_listed("one", "finished", "failed")["status"] == "finished", home.describe()
    for words in (("diff", "one"), ("receipt", "one"), ("conflicts",), ("merge", "one")):
        home.fleet.ok(*words)
    home.fleet.ok("list", "--repair")
    home.fleet.ok("kill", "one", "-d", "--yes")
    home.fleet.ok("trust", "--yes")
    assert (home.repo / "file1.txt").read_text() == "x\n"
    assert trap.ran() == []
    run_git(home.repo, "status", check=False)
    assert trap.ran(), "the trap itself must work"
