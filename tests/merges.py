"""Work that lies ready on branches: a repository, tasks that are done with receipts on record, and the real program."""

import hashlib
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fleet.assembly import Fleet, open_fleet
from fleet.config import load
from fleet.core.receipt import Receipt, drafted
from fleet.core.task import WORKTREE, Task
from fleet.engine.trusting import keep_trusted
from fleet.home import Home
from fleet.workspaces.repository import find_repository
from program import Program, Result
from repositories import make_repository, run_git

#: Fails for a tree that has a file whose name says so.
VERIFY = "ls; ! ls | grep -q broken"
#: What a merge may leave in git's folder of a checkout, and nothing else: objects, refs and their logs.
MERGED_INTO = ("objects", "refs/fleet", "logs/refs/fleet")


def branch_with(repo: Path, branch: str, files: dict[str, str | None], *, base: str = "main", author: str = "") -> str:
    """A branch of one commit more than its base, made without a checkout; its tip. None deletes a file."""
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
    """Every file of a checkout and of its git folder, but for objects and fleet's own refs: bytes, mode and time."""
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
    """What `git status` says there, run as a person would, without writing to the index."""
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
        """Give the project its settings: `verify` is the command, the others are those of [merge]."""
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
        """The home, from inside: for putting on record what agents would have done."""
        return open_fleet(self.home)

    def work(self, branch: str, files: dict[str, str | None] | None = None, **said: Any) -> str:
        """A task that is done, whose work is one commit on a branch; its id. With `tip`, that commit is it already."""
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
                body = drafted(finding, (f"shown for {branch}",), pieces)
                made = Receipt(run_id=f"{key}/1", task_id=key, owner="host", finding=finding, made_at=now, body=body)
                fleet.store.receipts.keep(made)
        return key

    def merge(self, *words: str, **options: Any) -> dict[str, Any]:
        """What `fleet merge --json` says, whether or not all was merged."""
        result = self.fleet("merge", *words, "--json", **options)
        assert result.code in (0, 1) and result.out, result
        told: dict[str, Any] = json.loads(result.out)
        return told

    def refused(self, *words: str, **options: Any) -> Result:
        """How a merge ended that could not begin."""
        result = self.fleet("merge", *words, **options)
        assert result.code != 0 and not result.out, result
        return result

    def task(self, key: str) -> Task:
        """A task as the queue has it."""
        with self.open() as fleet:
            return fleet.store.tasks.get(key)

    def files(self, commit: str = "main") -> set[str]:
        """The names of the files at a commit."""
        return set(run_git(self.repo, "ls-tree", "-r", "--name-only", commit).splitlines())

    def tip(self, ref: str = "refs/heads/main") -> str:
        """The commit that a ref is at; empty: there is none."""
        return run_git(self.repo, "for-each-ref", "--format=%(objectname)", ref)

    def assert_sound(self) -> None:
        """The target and its checkout are at one commit, nothing is left lying about, and git finds no fault."""
        assert run_git(self.repo, "status", "--porcelain", "--untracked-files=no") == ""
        assert not list((self.repo / ".git").glob("**/*.lock"))
        journal = self.fleet.home / "merges"
        assert not journal.exists() or not list(journal.glob("*.json"))
        run_git(self.repo, "fsck", "--strict")


def left_out(told: dict[str, Any]) -> dict[str, str]:
    """Why each task is not merged."""
    return {row["task"]: row["why"] for row in told["left_out"]}


def merged(told: dict[str, Any]) -> list[str]:
    """The tasks that are, in their order."""
    return [row["task"] for row in told["merged"]]
