"""Texts that leave the machine or stay on its disk contain no secret and no local path unless the user asks."""

from pathlib import Path

from projects import orders, use_shell_coder, write_project
from repositories import run_git
from terminals import Terminals
from terminals import home as at_home

__all__ = ["at_home"]

TOKEN = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
OWN = "s3cret-of-the-supervisor"


def test_pull_request_has_no_verify_output_no_secret_and_no_local_path(at_home: Terminals) -> None:
    home = at_home
    use_shell_coder(home)
    bare = home.fleet.user / "bare.git"
    run_git(home.fleet.user, "init", "--quiet", "--bare", "--initial-branch=main", str(bare))
    run_git(home.repo, "remote", "add", "origin", str(bare))
    said = f"echo oauth: {TOKEN} {OWN} in {home.repo}/a.py and {home.fleet.user}/.config/gh; echo seen-by-verify"
    (home.repo / "check.sh").write_text(f"{said}\n! test -e broken\n")
    write_project(home, f'[verify]\ncommand = "sh check.sh {home.repo}"\n[findings]\nverify_retries = 0\n')
    run_git(home.repo, "add", "--all")
    run_git(home.repo, "commit", "--quiet", "--message", "verify")
    home.fleet.ok("trust", "--yes")
    home.fleet.env["DEPLOY_TOKEN"] = OWN
    commit = "git add --all && git -c user.name=a -c user.email=a@example.invalid commit -qm work"
    for name, ends in ("good", "closed"), ("broken", "blocked"):
        home.told("create", name, "--headless", "--prompt", orders(f"echo x > {name}", commit))
        (task,) = home.rows_of_branch(name)
        home.wait_status(str(task["id"]), ends)
        words = home.fleet.ok("pr", name, "--dry-run")
        assert "ended with exit code" in words, words
        assert "seen-by-verify" not in words and "its last lines" not in words
        asked = home.fleet.ok("pr", name, "--dry-run", "--output")
        assert "seen-by-verify" in asked
        shown = home.fleet.ok("receipt", name)
        assert "seen-by-verify" in shown
        for text in words, asked, shown:
            assert TOKEN not in text and OWN not in text, text
        for text in words, asked:
            for place in home.repo, home.fleet.home, home.fleet.user, Path("/bin/sh"):
                assert str(place) not in text, (place, text)
    for path in home.fleet.home.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert TOKEN.encode() not in path.read_bytes() or "worktrees" in path.parts, path
