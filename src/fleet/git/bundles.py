"""Branches and fleet's refs in one git bundle for a backup, and restoring them without replacing any ref."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from fleet.core.record import Record
from fleet.git.process import GitFault
from fleet.git.repository import locked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fleet.git.view import View
    from fleet.home import Home

#: Prefix for refs of a backup that differ from the repository's refs.
RESTORED = "refs/fleet/restored/"
OURS = ("refs/heads/", "refs/fleet/")
_COMMIT = re.compile(r"[0-9a-f]{64}|[0-9a-f]{40}")


class RestoredRefs(Record):
    """What happened to the refs of a backup."""

    made: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    beside: tuple[tuple[str, str], ...] = ()  # a ref that differs, and the new ref with the backup's commit
    missing: tuple[str, ...] = ()  # refs whose commits are in neither the backup nor the repository


def refs_to_keep(view: View, branches: Iterable[str]) -> dict[str, str]:
    """Return the existing branches of tasks and all refs of fleet, each with its commit."""
    wanted = ["refs/fleet/", *(f"refs/heads/{branch}" for branch in sorted(set(branches)))]
    view.make()
    told = view.text("for-each-ref", "--format=%(objectname) %(refname)", *wanted)
    rows = (line.partition(" ") for line in told.splitlines())
    return {ref: commit for commit, _, ref in rows}


def write_bundle(view: View, path: str, refs: Iterable[str]) -> bool:
    """Write the commits of refs to a file, without commits that remotes have. Return False if no commits are left.

    Raises GitFault.
    """
    lines = "".join(f"{ref}\n" for ref in refs)
    try:
        view.git("bundle", "create", "--quiet", path, "--stdin", "--not", "--remotes", stdin=os.fsencode(lines))
    except GitFault as error:
        if "empty bundle" in error.said:
            return False
        raise
    return True


def take_back(home: Home, view: View, bundle: str, refs: Mapping[str, str], stamp: str) -> RestoredRefs:
    """Create missing refs. If a ref differs, keep it and store the backup's commit under another ref. Raises GitFault.

    Without a bundle, the commits must be in the repository.
    """
    found: dict[str, list[str]] = {"made": [], "same": [], "missing": []}
    beside = []
    view.make()
    with locked(home, view.repository):
        if bundle:
            into = f"{RESTORED}{stamp}/*"
            view.git("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", bundle, f"+refs/*:{into}")
        for ref, commit in refs.items():
            if not ref.startswith(OURS) or not _COMMIT.fullmatch(commit):
                continue
            copy = f"{RESTORED}{stamp}/{ref.removeprefix('refs/')}"
            now = view.commit_of(ref)
            word = "same" if now == commit else "" if now else _create_ref(view, ref, commit)
            if not word and _create_ref(view, copy, commit) != "missing":
                beside.append((ref, copy))
                continue
            found[word or "missing"].append(ref)
            if bundle:
                view.git("update-ref", "-d", copy)
    return RestoredRefs(beside=tuple(beside), **{name: tuple(refs) for name, refs in found.items()})


def _create_ref(view: View, ref: str, commit: str) -> str:
    """Create a ref. Return "made", "missing" if its commit does not exist, or "" if its name is taken."""
    if view.commit_of(commit) is None:
        return "missing"
    try:
        view.git("update-ref", "--create-reflog", ref, commit, "")
    except GitFault:
        return "made" if view.commit_of(ref) == commit else ""
    return "made"
