"""Branches, and the commits that names refer to, through fleet's view of the repository."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from fleet.core.branch import check_branch
from fleet.core.errors import BadInput, BranchInUse
from fleet.git.save.unreachable_commits import DELETED, LOG_BYTES, commits_among, sound, unheld
from fleet.git.worktree_place import read_plain
from fleet.git.worktree_records import branches_checked_out, head_of, worktrees

if TYPE_CHECKING:
    from collections.abc import Collection

    from fleet.git.repository import Repository
    from fleet.git.view import View

#: HEAD with a suffix: HEAD~2, @^, HEAD^{tree}.
HEAD = re.compile(r"(?:HEAD|@)(?![A-Za-z0-9_./{-])(?!@)")
LONGEST = 300
MOST_NAMES = 5000


def resolve_base(repository: Repository, view: View, base: str = "", *, cwd: str = "") -> str:
    """Return the commit that a worktree starts from: the one of `base`, or by default the caller's HEAD.

    `cwd` is the caller's directory; without it, the main checkout is used. Raises BadInput with similar names.
    """
    name = base_name(repository, base, cwd=cwd)
    return checked_base(repository, view, base, view.commit_of(name))


def base_name(repository: Repository, base: str = "", *, cwd: str = "") -> str:
    """Return the name to ask git for. HEAD is replaced by the HEAD of the caller's checkout, which is read as data."""
    if base.startswith("-") or len(base) > LONGEST or not base.isprintable():
        raise BadInput(f"{base[:80]!r} is not a commit", hint="name a branch, a tag or a commit")
    name = base or "HEAD"
    if not HEAD.match(name):
        return name
    branch, commit = head_of(_find_admin_around(repository, cwd))
    return HEAD.sub(f"refs/heads/{branch}" if branch else commit or "", name, count=1)


def checked_base(repository: Repository, view: View, base: str, commit: str | None) -> str:
    """Return the commit that git found for `base`. Raises BadInput if git found none."""
    if commit is None and not base:
        raise BadInput(
            f"{repository.top} has no commit yet", hint="create the first commit: a worktree starts from a commit"
        )
    if commit is None:
        raise BadInput(f"{base!r} is not a commit of {repository.top}", hint=_suggest_names(view, base))
    return commit


def delete_branch(view: View, branch: str) -> str:
    """Delete a branch and keep its tip under a ref of fleet, in one step. Return that ref.

    Raises BadInput. Raises BranchInUse if the branch is checked out, and GitFault if it moves meanwhile.
    """
    check_branch(branch)
    where = branches_checked_out(view.repository).get(branch)
    if where is not None:
        raise BranchInUse(
            f"branch {branch!r} is checked out at {where}", hint="remove that worktree, or switch it first"
        )
    ref = f"refs/heads/{branch}"
    tip = view.text("for-each-ref", "--format=%(objectname)", "--count=1", ref)
    if not tip:
        raise BadInput(f"no such branch: {branch!r}", hint=_suggest_names(view, branch))
    keep = f"{DELETED}{branch}/{tip[:12]}"
    orders = f"update {keep} {tip}\ndelete {ref} {tip}\n"
    view.git("update-ref", "--stdin", stdin=orders.encode())
    return keep


def restore_branch(view: View, branch: str, admin: str, known: Collection[str]) -> tuple[str, ...]:
    """Recreate a branch that was deleted under its worktree, at the newest commit known for it.

    Commits come from the worktree's log and from `known`. Return the newest of them. If several are unrelated, the
    branch is not created. If none is known, the result is empty.
    """
    check_branch(branch)
    log = read_plain(os.path.join(admin, "logs", "HEAD"), LOG_BYTES).splitlines()  # noqa: PTH118
    told = [log[-1].partition(b" ")[2].partition(b" ")[0]] if log else []
    found = sound(view, commits_among(view, [*told, *(commit.encode() for commit in known if commit)]))
    newest = tuple(unheld(view, found, ()))
    if len(newest) == 1:
        orders = f"create refs/heads/{branch} {newest[0]}\n"
        view.git("update-ref", "--stdin", stdin=orders.encode())
    return newest


def _find_admin_around(repository: Repository, cwd: str) -> str:
    place = os.path.realpath(cwd or repository.top)
    around = [(path, admin) for admin, path in worktrees(repository) if path and f"{place}/".startswith(f"{path}/")]
    # The innermost worktree counts, and a main checkout inside a worktree counts before that worktree.
    path, admin = max(around, key=lambda found: len(found[0]), default=("", repository.common))
    inner = f"{place}/".startswith(f"{repository.top}/") and len(repository.top) > len(path)
    return repository.common if inner else admin


def _suggest_names(view: View, name: str) -> str:
    words = ("for-each-ref", f"--count={MOST_NAMES}", "--format=%(refname:lstrip=2)")
    names = view.text(*words, "refs/heads", "refs/remotes", "refs/tags").splitlines()
    from difflib import get_close_matches  # only needed for typing errors

    close = get_close_matches(name, names, n=4, cutoff=0.5)
    return f"perhaps {', '.join(close)}?" if close else "run `git branch --all` to list the branches"
