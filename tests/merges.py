"""Finished work on branches: a repository, closed tasks with receipts on record, and the real program."""

import hashlib
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fleet.assembly import Fleet, open_fleet
from fleet.core.receipt import Receipt, draft_receipt
from fleet.core.task import WORKTREE, Task
from fleet.git.repository import find_repository
from fleet.home import Home
from fleet.settings import load
from fleet.supervisor.trust import keep_trusted
from program import Program, Result
from repositories import files_below, make_repository, run_git

#: Fails for a tree that has a file with "broken" in its name.
VERIFY = "ls; ! ls | grep -q broken"
#: The only parts of git's folder that a merge may change: objects, refs and their logs.
MERGED_INTO = ("objects", "refs/fleet", "logs/refs/fleet")


def branch_with(repo: Path, branch: str, files: dict[str, str | None], *, base: str = "main", author: str = "") -> str:
    """Create a branch with one more commit than its base, without a checkout. Return its tip. None deletes a file."""
    who = author or "An Agent <agent@example.invalid>"
    parts = [f"commit refs/heads/{branch}\nauthor {who} 1700000000 +0200\n"]
    parts.append("committer An Agent <agent@example.invalid> 1700000000 +0000\n")
    text = f"work on {branch}\n"
    parts.append(f"data {len(text.encode())}\n{text}from {run_git(repo, 'rev-parse', base)}\n")
    for name, content in files.items():
        if content is None:
            parts.append(f"D {name}\n")
        else:
            parts.append(f"M 100644 inline {name}\ndata {len(content.encode())}\n{content}\n")
    run_git(repo, "fast-import", "--quiet", "--force", stdin="".join(parts).encode() + b"\n")
    return run_git(repo, "rev-parse", f"refs/heads/{branch}")


def fingerprint(checkout: Path) -> dict[str, str]:
    """Return bytes, mode and time of all files of a checkout and its git folder, except objects and fleet's refs."""
    found = {}
    for folder, _, names in os.walk(checkout):
        for name in names:
            path = Path(folder, name)
            place = path.relative_to(checkout).as_posix()
            if any(f"/{part}/" in f"/{place}" for part in MERGED_INTO):
                continue
            seen = path.lstat()
            data = os.fsencode(path.readlink()) if stat.S_ISLNK(seen.st_mode) else path.read_bytes()
            found[place] = f"{seen.st_mode:o} {seen.st_mtime_ns} {hashlib.sha256(data).hexdigest()}"
    return found


def status(checkout: Path) -> str:
    """Return `git status` as a person would see it, without writing the index."""
    return run_git(checkout, "--no-optional-locks", "status", "--porcelain=v2", "--branch", "--untracked-files=all")


class Merges:
    """A home, a repository, and the program run in it."""

    def __init__(self, fleet: Program, *, verify: str = VERIFY, make: Callable[[Path], Path] = make_repository) -> None:
        self.fleet = fleet
        self.repo = make(fleet.cwd / "repo")
        fleet.cwd = self.repo
        self.home = Home(str(fleet.home))
        open_fleet(self.home, make=True).store.close()
        self.made = 0
        self.settle(verify=verify)

    def settle(self, *, trusted: bool = True, **settings: Any) -> None:
        """Set the project's settings: `verify` is the command, the others belong to [merge]."""
        verify = settings.pop("verify", "")
        text = f"[verify]\ncommand = {json.dumps(verify)}\n" if verify else ""
        text += "[merge]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
        file = self.repo / ".fleet" / "config.toml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        (self.repo / ".git" / "info" / "exclude").write_text(".fleet/\n")
        if trusted:
            repository, known = find_repository(str(self.repo)), load(self.home, str(self.repo), env={})
            with self.open() as fleet:
                keep_trusted(fleet.store, repository, known.demands, by="a person")

    def open(self) -> Fleet:
        """Open the home directly, to record what agents would have done."""
        return open_fleet(self.home)

    def work(self, branch: str, files: dict[str, str | None] | None = None, **said: Any) -> str:
        """Create a closed task whose work is one commit on a branch. Return its id. `tip` names an existing commit."""
        base, finding, receipt = said.pop("on", "main"), said.pop("finding", "verified"), said.pop("receipt", True)
        tip = said.pop("tip", "") or branch_with(
            self.repo, branch, files or {f"{branch}.txt": f"{branch}\n"}, base=base
        )
        self.made += 1
        key = f"fleet-m{self.made:03}"
        with self.open() as fleet, fleet.store.atomic():
            now = fleet.store.now()
            fields: dict[str, Any] = {
                "status": "closed",
                "closed_at": now,
                "title": f"do {branch}",
                "repo": str(self.repo),
                "cwd": str(self.repo),
                "workspace": WORKTREE,
                "branch": branch,
                "finding": finding,
            }
            fleet.store.tasks.add(Task(id=key, created_at=now, updated_at=now, **fields | said))
            if receipt:
                pieces = {"git": {"tip": tip, "branch": branch, "files": [{"path": name} for name in files or ()]}}
                body = draft_receipt(finding, (f"shown for {branch}",), pieces)
                made = Receipt(run_id=f"{key}/1", task_id=key, owner="host", finding=finding, made_at=now, body=body)
                fleet.store.receipts.keep(made)
        return key

    def merge(self, *words: str, **options: Any) -> dict[str, Any]:
        """Return the answer of `fleet merge --json`, whether or not everything was merged."""
        result = self.fleet("merge", *words, "--json", **options)
        assert result.code in (0, 1) and result.out, result
        told: dict[str, Any] = json.loads(result.out)
        return told

    def refused(self, *words: str, **options: Any) -> Result:
        """Return the result of a merge that must be refused."""
        result = self.fleet("merge", *words, **options)
        assert result.code != 0 and not result.out, result
        return result

    def task(self, key: str) -> Task:
        """Return a task from the queue."""
        with self.open() as fleet:
            return fleet.store.tasks.get(key)

    def files(self, commit: str = "main") -> set[str]:
        """Return the names of the files at a commit."""
        return set(run_git(self.repo, "ls-tree", "-r", "--name-only", commit).splitlines())

    def tip(self, ref: str = "refs/heads/main") -> str:
        """Return the commit of a ref, or "" if the ref does not exist."""
        return run_git(self.repo, "for-each-ref", "--format=%(objectname)", ref)

    def assert_sound(self) -> None:
        """Check that target and checkout are at one commit, that nothing is left over, and that git finds no fault."""
        assert run_git(self.repo, "status", "--porcelain", "--untracked-files=no") == ""
        assert not [file for file in files_below(self.repo / ".git") if file.suffix == ".lock"]
        journal = self.fleet.home / "merges"
        assert not journal.exists() or not list(journal.glob("*.json"))
        run_git(self.repo, "fsck", "--strict")


def left_out(told: dict[str, Any]) -> dict[str, str]:
    """Return the reasons why tasks were not merged."""
    return {row["task"]: row["why"] for row in told["left_out"]}


def merged(told: dict[str, Any]) -> list[str]:
    """Return the merged tasks in order."""
    return [row["task"] for row in told["merged"]]
