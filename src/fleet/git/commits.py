"""Commits without a worktree: their authors, messages and trees."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from fleet.core.record import Record
from fleet.git.process import GitFault, git

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fleet.git.repository import Repository
    from fleet.git.view import View

#: More commits than an agent makes in a day. Of a longer history, the newest are read.
MOST = 1000
FORM = "%H%n%T%n%P%n%an%n%ae%n%ad%n%B"
DATE = re.compile(r"\d{1,12} [+-]\d{4}")
#: Characters that git removes from names or cannot handle.
REFUSED = re.compile(r"[<>\x00-\x1f\x7f]+")
LONGEST_NAME = 200


class Person(Record):
    """The author or committer of a commit."""

    name: str
    email: str
    at: str = ""  # seconds and time zone in git's format; "": now

    def env(self, role: str) -> dict[str, str]:
        """Return git's environment variables for this person as AUTHOR or COMMITTER."""
        name = REFUSED.sub(" ", self.name).strip(" .,:;\"'\\")[:LONGEST_NAME] or "unknown"
        found = {f"GIT_{role}_NAME": name, f"GIT_{role}_EMAIL": REFUSED.sub("", self.email)[:LONGEST_NAME]}
        return found | ({f"GIT_{role}_DATE": f"@{self.at}"} if DATE.fullmatch(self.at) else {})


#: The committer if git knows no name for the user.
FLEET = Person(name="fleet", email="fleet@localhost")


class Commit(Record):
    """A commit, with the parts needed to recreate it elsewhere."""

    id: str
    tree: str
    parents: tuple[str, ...]
    author: Person
    message: str

    @property
    def subject(self) -> str:
        return next((line.strip() for line in self.message.splitlines() if line.strip()), "")


def commits_between(view: View, base: str, tip: str, *, merges: bool = True) -> list[Commit]:
    """Return the commits of `tip` that `base` lacks, oldest first. If there are very many, only the newest."""
    only = () if merges else ("--no-merges",)
    words = ("log", "-z", "--reverse", "--topo-order", f"--max-count={MOST}", "--date=raw", "--no-show-signature")
    told = view.git(*words, *only, f"--format={FORM}", "--end-of-options", tip, f"^{base}")
    return [_parse_commit(each) for each in told.decode("utf-8", "replace").split("\0") if each]


def make_commit(
    view: View,
    tree: str,
    parents: Sequence[str],
    message: str,
    *,
    author: Person = FLEET,
    committer: Person = FLEET,
) -> str:
    """Write a commit that no ref names yet. Return its id. Raises GitFault."""
    words = [word for parent in parents for word in ("-p", parent)]
    env = author.env("AUTHOR") | committer.env("COMMITTER")
    text = message.replace("\0", "").encode("utf-8", "replace")
    return view.git("commit-tree", tree, *words, "-F", "-", env=env, stdin=text).decode().strip()


def merge_base(view: View, one: str, other: str) -> str | None:
    """Return the best common ancestor of two commits, or None if their histories are unrelated."""
    found = view.git("merge-base", one, other, allow=(1,)).decode().split()
    return found[0] if found else None


def is_ancestor(view: View, commit: str, of: str) -> bool:
    """Return True if a commit is an ancestor of another or equals it."""
    return merge_base(view, commit, of) == commit


def tree_of(view: View, commit: str) -> str:
    """Return the tree of a commit. Raises GitFault."""
    ((tree, kind),) = view.known_kinds([f"{commit}^{{tree}}".encode()])
    if kind != "tree":
        raise GitFault(("cat-file",), 128, f"{commit} has no tree")
    return tree


def identity(repository: Repository) -> Person:
    """Return the user as git would name them in commits there, or FLEET. Git only lists its settings here."""
    listed = os.fsdecode(git("config", "--null", "--list", cwd="/", env={"GIT_DIR": repository.common}))
    entries = (entry.partition("\n") for entry in listed.split("\0") if entry)
    told: Mapping[str, str] = {key: value for key, _, value in entries}
    name, email = (REFUSED.sub(" ", told.get(f"user.{what}", "")).strip() for what in ("name", "email"))
    return Person(name=name, email=email) if name and email else FLEET


def _parse_commit(text: str) -> Commit:
    made, tree, parents, name, email, at, message = text.split("\n", 6)
    author = Person(name=name, email=email, at=at)
    return Commit(id=made, tree=tree, parents=tuple(parents.split()), author=author, message=message.strip("\n"))
