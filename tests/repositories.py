"""Real git repositories for tests: small ones, and big ones made fast. They use no settings of this machine."""

import os
import subprocess
from pathlib import Path

#: The committer; neither the system's nor the user's settings are read.
IDENTITY = {
    "GIT_AUTHOR_NAME": "A Person",
    "GIT_AUTHOR_EMAIL": "person@example.invalid",
    "GIT_COMMITTER_NAME": "A Person",
    "GIT_COMMITTER_EMAIL": "person@example.invalid",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
}


def run_git(path: Path, *words: str, stdin: bytes = b"", check: bool = True) -> str:
    """Return git's output in a directory, run as a person would, without the last line end."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *words], cwd=path, env=plain | IDENTITY, input=stdin, capture_output=True, check=False, timeout=120
    )
    if check and done.returncode:
        raise AssertionError(
            f"git {' '.join(words)} in {path} ended with {done.returncode}: {os.fsdecode(done.stderr)}"
        )
    return os.fsdecode(done.stdout).removesuffix("\n")


def files_below(folder: Path) -> list[Path]:
    """Return all files in a folder and below. Unlike glob, pass over folders that are being deleted meanwhile."""
    return [Path(parent, name) for parent, _, names in os.walk(folder) for name in names]


def make_repository(path: Path, files: int = 3) -> Path:
    """Create a repository on branch main with one commit of so many files (file1.txt, file2.txt …)."""
    path.mkdir(parents=True, exist_ok=True)
    run_git(path, "init", "--quiet", "--initial-branch=main")
    for number in range(1, files + 1):
        (path / f"file{number}.txt").write_text(f"text of file {number}\n", "utf-8")
    run_git(path, "add", "--all")
    run_git(path, "commit", "--quiet", "--allow-empty", "--message=first")
    return path


def commit(path: Path, name: str, text: str) -> str:
    """Write one file in a checkout and commit it. Return the commit."""
    file = path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    run_git(path, "add", "--force", "--", name)
    run_git(path, "commit", "--quiet", f"--message=change {name}")
    return run_git(path, "rev-parse", "HEAD")


def big_repository(path: Path, files: int = 2000) -> Path:
    """Create a checked-out repository on branch main with one commit of many files, a hundred per folder."""
    path.mkdir(parents=True, exist_ok=True)
    run_git(path, "init", "--quiet", "--initial-branch=main")
    run_git(path, "fast-import", "--quiet", stdin=b"".join(_stream(files)))
    run_git(path, "reset", "--quiet", "--hard", "main")
    return path


def branches(path: Path) -> list[str]:
    """Return the names of a repository's branches."""
    return run_git(path, "for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads").splitlines()


def worktrees(path: Path) -> list[str]:
    """Return the paths of a repository's worktrees, the main checkout first."""
    lines = run_git(path, "worktree", "list", "--porcelain").splitlines()
    return [line.removeprefix("worktree ") for line in lines if line.startswith("worktree ")]


def _stream(files: int) -> list[bytes]:
    head = b"commit refs/heads/main\ncommitter A Person <person@example.invalid> 1700000000 +0000\ndata 5\nfirst\n"
    return [head, *(_file(number) for number in range(files)), b"\n"]


def _file(number: int) -> bytes:
    text = f"# file {number}\n".encode() + b"a line of text\n" * (number % 60 + 5)
    return b"M 100644 inline part%d/file%d.txt\ndata %d\n%s\n" % (number // 100, number, len(text), text)
