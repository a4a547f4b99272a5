"""Changes that an agent could plant in a repository's git folder: foreign refs, and files that git obeys.

The folder is read before and after a run. The author of a change is usually unknown, so most findings are remarks. The
results of ordinary work are left out: commits in any checkout, new branches, fetches, stashes, new submodules. One
change is never ordinary work: the branch of the main checkout moved without the checkout. That change is undone.
"""

# ruff: noqa: PTH112, PTH118, PTH208
from __future__ import annotations

import functools
import os
import re
import tempfile
import zlib
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.core.ids import sha256
from fleet.core.jsontext import decode, encode
from fleet.core.quoting import quote_text
from fleet.git.merge.branch_move import entries
from fleet.git.repository import locked
from fleet.git.work_done import moved_by_fleet, reached_by_fleet
from fleet.git.worktree_place import read_plain
from fleet.git.worktree_records import COMMIT, head_of, worktrees

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from fleet.git.view import View
    from fleet.home import Home

#: Maximum number of refs to record, branches first, and limits for other entries.
MOST_REFS, MOST_FOLDERS, MOST_ENTRIES, MOST_BYTES, MOST_INDEX = 300, 200, 2_000, 1 << 20, 1 << 30
#: Length of an abbreviated object name.
SHORT = 16
KINDS = ("refs/heads/", "refs/replace/", "refs/tags/", "refs/remotes/")
#: Files besides settings and hooks, which `trust` handles, that change which files and commits git sees.
FILES = ("info/exclude", "info/grafts", "objects/info/alternates", "commondir", "gitdir")
#: Keys of a submodule's settings that git writes itself and that run nothing.
_PLAIN = re.compile(
    rb"(?:url|fetch|worktree|repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode"
    rb"|symlinks|remote|merge|rebase|active|branch|promisor|partialclonefilter|tagopt)\s*=(?!\s*\"?ext::)[^\\]*",
    re.IGNORECASE,
)
_HEADER = re.compile(rb"\s*\[[^\]]*\]\s*")
#: First words of git's own commands in a log of a remote's branch.
_FETCHED = ("fetch", "pull", "clone", "push", "update by push", "remote")
#: How much of the end of a log is read.
LOG_BYTES = 8192
KEPT = "refs/fleet/planted"
#: fleet's identity in git's logs.
FLEET = "<fleet@localhost>"
#: Longer marks are not from fleet.
MOST_MARK = 1 << 22


def mark(view: View) -> str:
    """Return a packed mark of the folder's state for a later comparison. Raises FleetError, OSError.

    The mark is packed because it is written with each look at a run.
    """
    told = encode({"refs": _read_refs(view), "inside": dict(_hash_git_files(view))})
    return b64encode(zlib.compress(told.encode("utf-8", "surrogatepass"))).decode()


def _unpack_mark(mark: object) -> dict[str, Any]:
    if not isinstance(mark, str):
        return {}
    try:
        told = decode(zlib.decompressobj().decompress(b64decode(mark), MOST_MARK).decode("utf-8", "surrogatepass"))
    except (ValueError, zlib.error):
        return {}
    return told if isinstance(told, dict) else {}


def found(home: Home, view: View, marks: tuple[object, object], branch: str) -> list[str]:
    """Return sentences about planted changes between two marks.

    `branch` is the run's own. Raises FleetError, OSError.
    """
    old, new = map(_unpack_mark, marks)
    if "refs" not in old or "refs" not in new:
        return []
    words = [
        f"{quote_text(name)} in the repository's git folder changed during the run"
        for name in _list_changed_files(old, new)
    ]
    before, after = _get_part(old, "refs"), _get_part(new, "refs")
    if len(before) >= MOST_REFS or len(after) >= MOST_REFS:  # each side may name other refs
        common = {*before} & {*after}
        before, after = ({name: refs[name] for name in common} for refs in (before, after))
    moved = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    judge = _RefMoves(home, view, branch, moved)
    for name in moved:
        if name != f"refs/heads/{branch}":
            words += judge.moved(name, before.get(name, ""), after.get(name, ""))
    return words


class _RefMoves:
    """The distinction between ordinary moves of refs and others."""

    def __init__(self, home: Home, view: View, branch: str, moved: Sequence[str]) -> None:
        self._home, self._view, self._own = home, view, f"refs/heads/{branch}"
        self._common = view.repository.common
        self._moved = moved

    @functools.cached_property
    def _tips(self) -> dict[str, str]:
        """Return the commit of each moved branch, all found by one process."""
        branches = [name for name in self._moved if name.startswith("refs/heads/")]
        tips = self._view.resolve_each(branches)
        return {name: tip for name, tip in zip(branches, tips, strict=True) if tip}

    @functools.cached_property
    def _logs(self) -> dict[str, list[str]]:
        """Return the logs of HEAD in all checkouts, by the branch that is checked out."""
        found: dict[str, list[str]] = {}
        for admin in self._list_admin_folders():
            found.setdefault(head_of(admin)[0] or "", []).append(os.path.join(admin, "logs", "HEAD"))
        return found

    def moved(self, name: str, old: str, new: str) -> list[str]:
        """Return sentences about a changed ref. Return an empty list if its move is ordinary."""
        if name.endswith("/HEAD") and name.startswith("refs/remotes/"):
            return []
        if new.startswith("->"):
            return [f"{quote_text(name)} became a link to {quote_text(new[3:])} during the run"]
        if name.startswith("refs/replace/"):
            return [f"{quote_text(name)} {_choose_verb(old, new)} during the run: it replaces one object with another"]
        kind = next(kind for kind in KINDS if name.startswith(kind))
        ordinary = {
            "refs/heads/": self._is_ordinary_branch_move,
            "refs/tags/": self._tag,
            "refs/remotes/": self._is_ordinary_remote_move,
        }[kind]
        return (
            [] if ordinary(name, old, new) else [self._restore_branch(name, old, new) or _describe_move(name, old, new)]
        )

    def _is_ordinary_branch_move(self, name: str, old: str, new: str) -> bool:
        if not old or (new and self._is_logged(name, self._tips.get(name, ""))):
            return True
        branch = name.removeprefix("refs/heads/")
        tip = self._view.tip_of(branch) or ""
        logs = [
            os.path.join(admin, "logs", "HEAD") for admin in self._list_admin_folders() if head_of(admin)[0] == branch
        ]
        if not (new and tip):
            return not new and not logs and self._is_held(old)
        if any(_read_last_move(path)[0] == tip for path in logs):
            return True
        repository = self._view.repository
        if any(entry.new == tip for entry in entries(self._home, repository, branch)):
            return True  # fleet is about to record it
        since = [self._expand_commit(old), *(_read_last_move(path)[0] for path in logs)]
        if any(commit and moved_by_fleet(self._home, repository, commit, tip) for commit in since):
            return True
        main = head_of(self._common)[0] == branch
        commit, said, who = _read_last_move(os.path.join(self._common, "logs", name))
        return not main and commit == tip and bool(said) and (not logs or FLEET in who)

    def _is_logged(self, name: str, tip: str) -> bool:
        """Return True if git's logs show how a branch came to a commit: through fleet or through its checkout."""
        branch = name.removeprefix("refs/heads/")
        if not tip:
            return False
        commit, said, who = _read_last_move(os.path.join(self._common, "logs", name))
        is_fleets = commit == tip and bool(said) and FLEET in who
        if is_fleets and head_of(self._common)[0] != branch:
            return True
        return any(_read_last_move(path)[0] == tip for path in self._logs.get(branch, ()))

    def _tag(self, name: str, old: str, new: str) -> bool:
        return not old and self._is_held(name)

    def _is_ordinary_remote_move(self, name: str, old: str, new: str) -> bool:
        commit, said, _ = _read_last_move(os.path.join(self._common, "logs", name))
        return not new or (commit.startswith(new) and said.startswith(_FETCHED))

    def _restore_branch(self, name: str, old: str, new: str) -> str:
        """Move the branch of the main checkout back to the checkout's commit. Return a description of it, or "".

        This happens only if the checkout's log and its index agree on a commit. A user's own move appears in one of
        them.
        """
        repository, branch = self._view.repository, name.removeprefix("refs/heads/")
        if repository.top == repository.common or head_of(repository.common)[0] != branch:
            return ""
        with locked(self._home, repository):
            logged = _read_last_move(os.path.join(repository.common, "logs", "HEAD"))[0]
            known = reached_by_fleet(self._home, repository, branch, logged)
            planted = self._view.tip_of(branch) or ""
            since = known.startswith(old) or self._is_between(old, logged)
            if not (known and since) or planted == known or entries(self._home, repository, branch):
                return ""
            try:
                if not self._is_staged(known):
                    return ""
                if planted:
                    kept = f"{KEPT}/{branch}/{planted[:SHORT]}"
                    self._view.git("update-ref", kept, planted)
                self._view.git("update-ref", "-m", "fleet: put back", name, known, planted or "0" * len(known))
            except FleetError:  # the branch moved just now, or the commit does not exist
                return ""
        where = f"; {planted[:10]} is kept at {quote_text(kept)}" if planted else ""
        how = "moved" if planted else "deleted"
        event = f"{quote_text(name)} was {how} during the run without the main checkout"
        return f"{event}, and was reset to {known[:10]}{where}"

    def _is_staged(self, commit: str) -> bool:
        """Return True if the index of the main checkout equals this commit."""
        with tempfile.TemporaryDirectory(prefix="planting-", dir=self._view.path) as folder:
            index = os.path.join(folder, "index")
            with open(index, "wb") as file:  # noqa: PTH123
                file.write(read_plain(os.path.join(self._common, "index"), MOST_INDEX))
            words = ("diff-index", "--cached", "--raw", "--ignore-submodules=none", commit)
            return not self._view.git(*words, index=index)

    def _is_between(self, old: str, known: str) -> bool:
        """Return True if the checkout's own log leads from one commit to another."""
        text = read_plain(os.path.join(self._common, "logs", "HEAD"), MOST_BYTES)
        return any(old.encode() in line[: 2 * len(known) + 1] for line in text.splitlines())

    def _expand_commit(self, short: str) -> str:
        return self._view.commit_of(short) or short

    def _is_held(self, name: str) -> bool:
        """Return True if a commit is in a ref of fleet or in a branch that is not the run's own."""
        form = ("for-each-ref", "--contains", name, "--format=%(refname)", "refs/heads", "refs/remotes", "refs/fleet")
        try:
            holders = self._view.text(*form).splitlines()
        except FleetError:
            return False
        return any(holder != self._own and not holder.startswith(KEPT) for holder in holders)

    def _list_admin_folders(self) -> Iterator[str]:
        yield self._common
        for admin, _ in worktrees(self._view.repository):
            yield admin


def _read_refs(view: View) -> dict[str, str]:
    told = view.git("for-each-ref", "--format=%(refname) %(objectname) %(symref)", *(kind[:-1] for kind in KINDS))
    rows = (os.fsdecode(line).split(" ", 2) for line in told.splitlines())
    refs = {name: f"-> {link}" if link else commit[:SHORT] for name, commit, link in rows}
    named = sorted(refs, key=lambda name: [name.startswith(kind) for kind in KINDS], reverse=True)[:MOST_REFS]
    return {name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"): refs[name] for name in named}


def _hash_git_files(view: View) -> Iterator[tuple[str, str]]:
    """Yield the name of each file that git obeys, and a hash of its text."""
    common, home = view.repository.common, os.fsencode(os.path.realpath(view.home))
    for name in FILES:
        yield name, _hash(_read(os.path.join(common, name)))
    repository = _Folder(common)
    for admin in repository.below("worktrees"):
        for name in ("gitdir", "commondir"):
            # The worktrees move with their home.
            text = _read(os.path.join(admin, name)).removeprefix(home)
            yield f"worktrees/{os.path.basename(admin)}/{name}", _hash(text)  # noqa: PTH119
    for folder in repository.modules():
        place = os.path.relpath(folder, common)
        lines = (_HEADER.sub(b"", line).strip() for line in _read(os.path.join(folder, "config")).splitlines())
        kept = [line for line in lines if line and not line.startswith((b"#", b";")) and not _PLAIN.fullmatch(line)]
        yield f"{place}/config", _hash(b"\n".join(kept))
        hooks = _Folder(folder).files("hooks")
        yield f"{place}/hooks", _hash("\n".join(hooks).encode("utf-8", "surrogateescape"))


class _Folder:
    """The content of a git folder, up to a limit. Links are not followed."""

    def __init__(self, path: str) -> None:
        self._path = path

    def below(self, name: str) -> list[str]:
        """Return the folders in a folder."""
        folder = os.path.join(self._path, name)
        if not os.path.isdir(folder) or os.path.islink(folder):  # noqa: PTH114
            return []
        with os.scandir(folder) as entries:
            return sorted(each.path for each in entries if each.is_dir(follow_symlinks=False))[:MOST_FOLDERS]

    def files(self, name: str) -> list[str]:
        """Return the files in a folder, except samples, each with its mode, size and time."""
        folder = os.path.join(self._path, name)
        if not os.path.isdir(folder):
            return []
        names = [each for each in sorted(os.listdir(folder)) if not each.endswith(".sample")][:MOST_FOLDERS]
        seen = ((each, os.lstat(os.path.join(folder, each))) for each in names)
        return [f"{each} {stat.st_mode:o} {stat.st_size} {stat.st_mtime_ns}" for each, stat in seen]

    def modules(self) -> list[str]:
        """Return the git folders of submodules, including nested submodules."""
        waiting, looked = [os.path.join(self._path, "modules")], 0
        found: list[str] = []
        while waiting and looked < MOST_ENTRIES and len(found) < MOST_FOLDERS:
            folder = waiting.pop()
            looked += 1
            if os.path.lexists(os.path.join(folder, "HEAD")):
                found.append(folder)
                waiting.append(os.path.join(folder, "modules"))
            else:
                waiting += _Folder(os.path.dirname(folder)).below(os.path.basename(folder))  # noqa: PTH119, PTH120
        return sorted(found)


def _list_changed_files(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the files that differ.

    New or removed worktrees are left out, and so are new submodules with plain settings.
    """
    before, after = _get_part(old, "inside"), _get_part(new, "inside")
    names = {*before, *after}
    empty = _hash(b"")
    # The files of a worktree that is being created are empty.
    known = {name for name in before if before[name] != empty and name in after}
    names -= {name for name in names if name.startswith("worktrees/")} - known
    return sorted(name for name in names if before.get(name, empty) != after.get(name, empty))


def _get_part(told: Mapping[str, Any], name: str) -> dict[str, str]:
    part = told.get(name)
    return part if isinstance(part, dict) else {}


def _read(path: str) -> bytes:
    data = read_plain(path, MOST_BYTES + 1)
    if len(data) <= MOST_BYTES:
        return data
    seen = os.lstat(path)
    return f"{seen.st_size} {seen.st_mtime_ns}".encode()  # too long for such a file


def _hash(data: bytes) -> str:
    return sha256(data)[:SHORT]


def _read_last_move(path: str) -> tuple[str, str, str]:
    """Return the last commit in a ref's log, the reason of its move, and its author."""
    lines = read_plain(path, LOG_BYTES).splitlines()
    told, _, said = (lines[-1] if lines else b"").decode("utf-8", "replace").partition("\t")
    parts = told.split(" ", 2)
    return (parts[1], said.strip(), parts[2]) if len(parts) == 3 and COMMIT.fullmatch(parts[1]) else ("", "", "")


def _choose_verb(old: str, new: str) -> str:
    return "was made" if not old else "was deleted" if not new else "was moved"


def _describe_move(name: str, old: str, new: str) -> str:
    where = f" from {old[:10]} to {new[:10]}" if old and new else f" at {(new or old)[:10]}"
    return f"{quote_text(name)} {_choose_verb(old, new)}{where} during the run, and git has no record of the author"
