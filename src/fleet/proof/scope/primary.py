"""The user's own checkout before and after a run: differences that appeared while an agent worked elsewhere.

Nothing shows who made them, because the user works there too. So the findings are remarks and prove nothing.
"""

# ruff: noqa: PTH118, PTH208
from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import tempfile
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.core.jsontext import decode, encode
from fleet.core.quoting import join_first, quote_text
from fleet.git.sharing import SharedCalls
from fleet.git.work_done import moved_by_fleet
from fleet.git.worktree_index import LIST, Directories, listed
from fleet.git.worktree_place import read_plain
from fleet.git.worktree_records import head_of
from fleet.proof.scope import planted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from fleet.git.view import View
    from fleet.home import Home

#: Maximum number of files of a dirty checkout that a mark names. One sum covers the others.
MOST_FILES = 300
#: Maximum number of hooks to examine, and maximum length of a settings file.
MOST_HOOKS, MOST_CONFIG = 200, 1 << 20
#: Notes of `git push -u` and `git branch` about a branch, which run nothing.
_BRANCH = re.compile(rb'\s*\[branch "[^"\\]*"\]\s*')
_OF_BRANCH = re.compile(rb'\s*(?:remote|merge|rebase|pushRemote|vscode-merge-base)\s*=[^"\\]*', re.IGNORECASE)


_marks: SharedCalls[str] = SharedCalls()
#: For each repository the index and commit of the last comparison, and the files that differed.
MOST_COMPARED = 16
_compared: dict[str, tuple[tuple[str, str] | None, list[tuple[bytes, str]]]] = {}


def mark(view: View) -> str:
    """Return a mark of the main checkout, its settings and its hooks for a later comparison.

    Return "" if they are unreadable.

    The checkout is read through fleet's view with a copy of the index. Nothing in the repository is obeyed or written.
    Agents that begin or end together share a look.
    """
    return _marks.look(view.repository.common, lambda: _make_mark(view))


def _make_mark(view: View) -> str:
    common = view.repository.common
    try:
        told = {
            "config": _hash_config(common),
            "hooks": _read_hooks(common),
            "planting": planted.mark(view),
        } | _read_checkout(view)
    except (FleetError, OSError, ValueError):
        return ""
    return encode(told)


def since(home: Home, view: View, before: str, branch: str) -> list[str]:
    """Return sentences about differences since a mark was made. Merges by fleet do not count.

    `branch` is the run's own.
    """
    now = mark(view) if before else ""
    old, new = _decode_mark(before).get("head"), _decode_mark(now).get("head")
    merged = old and new and old[0] == new[0] and moved_by_fleet(home, view.repository, old[1], new[1])
    told = strays(_replace_head(before, new) if merged else before, now)
    if before == now:
        return told
    if not now:
        return ["the main checkout and git's folder can no longer be read: not compared"]
    try:
        marks = _decode_mark(before).get("planting"), _decode_mark(now).get("planting")
        return told + planted.found(home, view, marks, branch)
    except (FleetError, OSError, ValueError) as error:
        return [*told, f"the repository's git folder could not be compared: {quote_text(str(error))}"]


def strays(before: str, now: str) -> list[str]:
    """Return sentences about differences between two marks. Return an empty list if a mark is missing."""
    old, new = _decode_mark(before), _decode_mark(now)
    if not old or not new:
        return []
    found = []
    if files := changed(before, now):
        found.append(f"the main checkout changed during the run: {join_first(files)}")
    elif old.get("more") != new.get("more"):
        found.append("the main checkout changed during the run")
    if old.get("head") != new.get("head"):
        found.append(f"the main checkout went from {_format_head(old)} to {_format_head(new)} during the run")
    if old.get("config") != new.get("config"):
        found.append("the repository's .git/config changed during the run")
    if hooks := _list_differences(old.get("hooks"), new.get("hooks")):
        found.append(f"the repository's hooks changed during the run: {join_first(hooks)}")
    return found


def changed(before: str, now: str) -> list[str]:
    """Return the files of the main checkout that differ between two marks, as far as the marks name them."""
    old, new = _decode_mark(before), _decode_mark(now)
    return _list_differences(old.get("files"), new.get("files")) if old and new else []


def _read_checkout(view: View) -> dict[str, Any]:
    repository = view.repository
    if repository.top == repository.common:
        return {"head": ["", ""], "files": {}}  # a bare repository has no checkout
    view.make()
    branch, commit = head_of(repository.common)
    at = view.tip_of(branch) if branch else view.commit_of(commit) if commit else None
    files: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="primary-", dir=view.path) as folder:
        index = os.path.join(folder, "index")
        _copy_index(os.path.join(repository.common, "index"), index)
        for path, told in [*_list_unstaged_files(view, index), *_list_staged_files(view, index, at)]:
            name = path.decode("utf-8", "backslashreplace")  # a name of any bytes as text that can be stored
            files[name] = f"{files.get(name, '')} {told}".lstrip()
    rows = sorted(files.items())
    more = _hash_lines(f"{name}\0{told}" for name, told in rows[MOST_FILES:]) if len(rows) > MOST_FILES else ""
    return {"head": [branch or "", at or ""], "files": dict(rows[:MOST_FILES]), "more": more}


def _copy_index(index: str, copy: str) -> None:
    """Copy the user's index with its times, which tell git what it need not read.

    Skip an index that is not a plain file.
    """
    if os.path.lexists(index) and stat.S_ISREG(os.lstat(index).st_mode):
        shutil.copy2(index, copy, follow_symlinks=False)


def _list_unstaged_files(view: View, index: str) -> Iterator[tuple[bytes, str]]:
    """Yield the files that differ from the index, each with a text that identifies its state."""
    top = view.repository.top
    there = Directories(top)
    for _, path in listed(view.git(*LIST, tree=top, index=index)):
        if not path.endswith(b"/"):  # a nested repository is skipped
            seen = there.lstat(path)
            yield path, _hash_file_state(seen) if seen else "gone"


def _list_staged_files(view: View, index: str, commit: str | None) -> list[tuple[bytes, str]]:
    """Return the files in which an index differs from a commit.

    Reuse the last result for an unchanged index and commit.
    """
    if commit is None:
        return []
    key = _hash_index(index), commit
    known, found = _compared.get(view.path, (None, []))
    if known != key:
        words = ("diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=all")
        fields = view.git(*words, commit, tree=view.repository.top, index=index).split(b"\0")
        pairs = zip(fields[::2], fields[1::2], strict=False)
        found = [(path, told.split(b" ")[3][:16].decode("ascii", "replace")) for told, path in pairs]
        if len(_compared) >= MOST_COMPARED:
            _compared.clear()
        _compared[view.path] = key, found
    return found


def _hash_index(index: str) -> str:
    if not os.path.lexists(index):
        return ""
    with open(index, "rb") as file:  # noqa: PTH123
        return hashlib.file_digest(file, "sha256").hexdigest()


def _hash_file_state(seen: os.stat_result) -> str:
    return f"{seen.st_mode:o}.{seen.st_size}.{seen.st_mtime_ns}"


def _hash_config(common: str) -> str:
    """Return a hash of the repository's settings, without git's own notes about branches."""
    kept, in_branch = [], False
    for line in read_plain(os.path.join(common, "config"), MOST_CONFIG).split(b"\n"):
        if line.lstrip().startswith(b"["):
            in_branch = _BRANCH.fullmatch(line) is not None
            kept += [] if in_branch else [line]
        elif line.strip() and not (in_branch and _OF_BRANCH.fullmatch(line)):
            kept.append(line)
    return hashlib.sha256(b"\n".join(kept)).hexdigest()[:16]


def _read_hooks(common: str) -> dict[str, str]:
    """Return each hook that git would run, with its size and time. Samples are skipped."""
    folder, found = os.path.join(common, "hooks"), {}
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []  # noqa: PTH112
    for name in [each for each in names if not each.endswith(".sample")][:MOST_HOOKS]:
        found[os.fsencode(name).decode("utf-8", "backslashreplace")] = _hash_file_state(
            os.lstat(os.path.join(folder, name))
        )
    return found


def _replace_head(text: str, head: Any) -> str:
    return encode(_decode_mark(text) | {"head": head})


def _decode_mark(text: str) -> dict[str, Any]:
    try:
        told = decode(text) if text else {}
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _list_differences(old: Any, new: Any) -> list[str]:
    before, after = old if isinstance(old, dict) else {}, new if isinstance(new, dict) else {}
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


def _format_head(told: dict[str, Any]) -> str:
    branch, commit = told.get("head") or ("", "")
    return " at ".join(each for each in (quote_text(branch), commit[:10]) if each) or "no commit"


def _hash_lines(lines: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for line in lines:
        digest.update(os.fsencode(line) + b"\n")
    return digest.hexdigest()[:16]
