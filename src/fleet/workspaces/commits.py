"""Commits that are made without a worktree: who made them, what they say, which tree they hold."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from fleet.core.record import Record
from fleet.workspaces.git import GitFault, git

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fleet.workspaces.repository import Repository
    from fleet.workspaces.view import View

#: More than an agent makes in a day; of a longer history the newest are read.
MOST = 1000
FORM = "%H%n%T%n%P%n%an%n%ae%n%ad%n%B"
DATE = re.compile(r"\d{1,12} [+-]\d{4}")
#: What git takes out of names by itself, or stumbles over.
REFUSED = re.compile(r"[<>\x00-\x1f\x7f]+")
LONGEST_NAME = 200


class Person(Record):
    """Who made a commit."""

    name: str
    email: str
    at: str = ""  # seconds and zone, as git writes them; empty: now

    def env(self, role: str) -> dict[str, str]:
        """The same for git, as AUTHOR or COMMITTER."""
        name = REFUSED.sub(" ", self.name).strip(" .,:;\"'\\")[:LONGEST_NAME] or "unknown"
        found = {f"GIT_{role}_NAME": name, f"GIT_{role}_EMAIL": REFUSED.sub("", self.email)[:LONGEST_NAME]}
        return found | ({f"GIT_{role}_DATE": f"@{self.at}"} if DATE.fullmatch(self.at) else {})


#: Who commits where the user is nobody git knows.
FLEET = Person(name="fleet", email="fleet@localhost")


class Commit(Record):
    """One commit, as far as it is made anew elsewhere."""

    id: str
    tree: str
    parents: tuple[str, ...]
    author: Person
    message: str

    @property
    def subject(self) -> str:
        return next((line.strip() for line in self.message.splitlines() if line.strip()), "")


def commits_between(view: View, base: str, tip: str, *, merges: bool = True) -> list[Commit]:
    """The commits of `tip` that `base` does not have, oldest first; of very many the newest."""
    only = () if merges else ("--no-merges",)
    words = ("log", "-z", "--reverse", "--topo-order", f"--max-count={MOST}", "--date=raw", "--no-show-signature")
    told = view.git(*words, *only, f"--format={FORM}", "--end-of-options", tip, f"^{base}")
    return [_commit(each) for each in told.decode("utf-8", "replace").split("\0") if each]


def make_commit(
    view: View,
    tree: str,
    parents: Sequence[str],
    message: str,
    *,
    author: Person = FLEET,
    committer: Person = FLEET,
) -> str:
    """Put a commit into the repository, that no ref names yet. Raises GitFault."""
    words = [word for parent in parents for word in ("-p", parent)]
    env = author.env("AUTHOR") | committer.env("COMMITTER")
    text = message.replace("\0", "").encode("utf-8", "replace")
    return view.git("commit-tree", tree, *words, "-F", "-", env=env, stdin=text).decode().strip()


def merge_base(view: View, one: str, other: str) -> str | None:
    """The newest commit that both have; none where their histories have nothing in common."""
    found = view.git("merge-base", one, other, allow=(1,)).decode().split()
    return found[0] if found else None


def is_ancestor(view: View, commit: str, of: str) -> bool:
    """Whether a commit is in the history of another, or is it."""
    return merge_base(view, commit, of) == commit


def tree_of(view: View, commit: str) -> str:
    """Return the tree of a commit. Raises GitFault."""
    ((tree, kind),) = view.known_kinds([f"{commit}^{{tree}}".encode()])
    if kind != "tree":
        raise GitFault(("cat-file",), 128, f"{commit} has no tree")
    return tree


def identity(repository: Repository) -> Person:
    """The user, by the name that git would write into their commits there; else fleet. Git only lists here."""
    listed = os.fsdecode(git("config", "--null", "--list", cwd="/", env={"GIT_DIR": repository.common}))
    entries = (entry.partition("\n") for entry in listed.split("\0") if entry)
    told: Mapping[str, str] = {key: value for key, _, value in entries}
    name, email = (REFUSED.sub(" ", told.get(f"user.{what}", "")).strip() for what in ("name", "email"))
    return Person(name=name, email=email) if name and email else FLEET


def _commit(text: str) -> Commit:
    made, tree, parents, name, email, at, message = text.split("\n", 6)
    author = Person(name=name, email=email, at=at)
    return Commit(id=made, tree=tree, parents=tuple(parents.split()), author=author, message=message.strip("\n"))
