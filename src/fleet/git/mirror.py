"""Repositories of other hosts: a bare mirror of their remote, which can have worktrees like any repository.

The remote's branches are under `refs/remotes/origin`; local branches belong to tasks that ran here. An agent can write
to a mirror as to any repository that it works in. So git talks to the remote through fleet's view of the mirror.
"""

# ruff: noqa: PTH105, PTH108, PTH112, PTH113, PTH114, PTH118
from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING

from fleet.core.branch import check_branch
from fleet.core.errors import FleetError
from fleet.core.ids import sha256
from fleet.files import atomic_write, make_private, write_once
from fleet.git.commits import is_ancestor
from fleet.git.process import GitFault, git
from fleet.git.remote import FETCH_SECONDS, Remote, RemoteAway, checked, remote_of, shown, talk, why
from fleet.git.repository import Repository, find_repository, locked
from fleet.git.view import View
from fleet.git.worktree_records import branches_checked_out, read

if TYPE_CHECKING:
    from fleet.home import Home

#: Where a mirror stores the state of the remote's branches at the last fetch.
SEEN = "refs/remotes/origin"
#: Where a user's repository stores a branch that came back from another host.
ARRIVED = "refs/fleet/arrived"
#: Where a base commit is stored that is on no branch of the remote.
BASES = "refs/fleet/base"
MOST_PROJECT = 1 << 20
#: Git's words for fetching, before the remote and the refspecs.
FETCH = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--no-recurse-submodules")
_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def mirror_of(home: Home, url: str) -> Repository:
    """Return the mirror of a remote in a home, whether or not it exists yet."""
    path = os.path.join(_folder(home), f"{_hash_url(url)}-{mark_of(home)}.git")
    return Repository(top=path, common=path)


def mark_of(home: Home) -> str:
    """Return a mark that distinguishes this home and its mirrors from a home at the same path on another host."""
    path = os.path.join(_folder(home), "mark")
    if found := read(path).strip():
        return found
    make_private(_folder(home))
    write_once(path, os.urandom(3).hex().encode())
    return read(path).strip()


def repository_at(home: Home, repo: str, url: str, base: str) -> Repository:
    """Return the repository in which a task works on this host, without using the network.

    This is the task's repository if it exists here with this remote and the base. Otherwise it is the mirror, which may
    not exist yet.
    """
    try:
        found = find_repository(repo) if os.path.isdir(repo) else None
        if found is not None and _is_of(found, url) and (not base or View(home, found).resolve(base) != [None]):
            return found
    except FleetError:
        pass  # the task can do without it, whatever is wrong
    return mirror_of(home, url)


def _is_of(repository: Repository, url: str) -> bool:
    remote = remote_of(repository)
    return remote is not None and remote.url == url


def remote_for(repository: Repository, url: str) -> Remote:
    """Return the remote of a task as this repository reaches it. Raises BadInput."""
    own = remote_of(repository) if os.path.isdir(repository.common) else None
    return own if own is not None and own.url == url else Remote(url=url, address=checked(url))


def fetch_mirror(home: Home, url: str, base: str) -> Repository:
    """Update the mirror of a remote, creating it first if needed. Raises RemoteAway, BadInput.

    The caller must check whether the mirror has the base commit afterwards.
    """
    repository, remote = mirror_of(home, url), Remote(url=url, address=checked(url))
    with locked(home, repository):
        if not os.path.isdir(os.path.join(repository.common, "objects")):
            _make(repository, url, sha256=len(base) == 64)
        _put_right(repository, url, sha256=len(base) == 64)
        view = View(home, repository)
        _fetch_mirror(view, remote, "--prune", f"+refs/heads/*:{SEEN}/*")
        # A base that is on no branch has a separate ref. Some servers also send a commit by its id.
        for refspec in (f"+{BASES}/{base}:{BASES}/{base}", f"{base}:{BASES}/{base}") if _SHA.fullmatch(base) else ():
            if view.resolve(base) != [None]:
                break
            talk(view, remote, *FETCH, "--", remote.address, refspec, seconds=FETCH_SECONDS)
    return repository


def bring(home: Home, repository: Repository, url: str, branch: str) -> str | None:
    """Fetch one branch from a remote under a ref beside the local branches. Return its tip, or None if missing.

    Raises RemoteAway, BadInput.
    """
    check_branch(branch)
    view, remote = View(home, repository), remote_for(repository, url)
    with locked(home, repository):
        refspec = f"+refs/heads/{branch}:{ARRIVED}/{branch}"
        told = talk(view, remote, *FETCH, "--", remote.address, refspec, seconds=FETCH_SECONDS)
        if told.status and "couldn't find remote ref" in told.said:
            return None
        if told.status:
            raise _make_remote_away(remote, why(told))
    return view.commit_of(f"{ARRIVED}/{branch}")


def catch_up(home: Home, repository: Repository, branch: str, tip: str | None, base: str) -> str:
    """Move a branch that is not checked out to its tip on another host. Return a description of the change, or "".

    A tip that does not descend from the base belongs to someone else and is ignored. Commits that only the local branch
    has are kept under a ref of fleet. Raises GitFault.
    """
    view = View(home, repository)
    with locked(home, repository):
        own = view.commit_of(f"refs/heads/{branch}")
        if tip is None or tip == own or branch in branches_checked_out(repository) or not is_ancestor(view, base, tip):
            return ""
        if own is None:
            view.git("update-ref", f"refs/heads/{branch}", tip, "0" * len(tip))
            return f"branch {branch} continues from the state of another host"
        if is_ancestor(view, tip, own):
            return ""
        kept = f"refs/fleet/deleted/{branch}/{own[:12]}"
        orders = "" if is_ancestor(view, own, tip) else f"update {kept} {own}\n"
        view.git("update-ref", "--stdin", stdin=f"{orders}update refs/heads/{branch} {tip} {own}\n".encode())
    return f"branch {branch} continues from the state of another host" + (
        f"; {kept} keeps the previous local tip" if orders else ""
    )


def project_folder(home: Home, url: str, base: str) -> str:
    """Return the folder with the settings file of a project that works from a mirror, as of a base commit."""
    return os.path.join(_folder(home), f"{_hash_url(url)}.projects", base)


def keep_project(home: Home, url: str, base: str, names: tuple[str, ...]) -> str:
    """Store the first of these files of the base commit in that folder, or an empty file if none exists.

    Return the folder. Raises GitFault, OSError.
    """
    folder, view = project_folder(home, url, base), View(home, mirror_of(home, url))
    found = next((data for name in names if (data := _read_file(view, base, name)) is not None), b"")
    place = os.path.join(folder, names[0])
    make_private(os.path.dirname(place))  # noqa: PTH120
    atomic_write(place, found, 0o600)
    return folder


def _read_file(view: View, commit: str, name: str) -> bytes | None:
    told = view.git("ls-tree", "-l", "-z", commit, "--", name)
    head = told.partition(b"\t")[0].split()
    if len(head) != 4 or head[1] != b"blob" or head[0] == b"120000" or int(head[3]) > MOST_PROJECT:
        return None
    return view.git("cat-file", "blob", head[2].decode())


def _fetch_mirror(view: View, remote: Remote, *words: str) -> None:
    told = talk(view, remote, *FETCH, *words[:-1], "--", remote.address, words[-1], seconds=FETCH_SECONDS)
    if told.status:
        raise _make_remote_away(remote, why(told))


def _make_remote_away(remote: Remote, reason: str) -> RemoteAway:
    return RemoteAway(
        f"{shown(remote.url)} cannot be read: {reason}",
        hint=f"run `git ls-remote {shown(remote.url)}` to test the connection",
    )


def _make(repository: Repository, url: str, *, sha256: bool) -> None:
    """Create an empty mirror, completely or not at all."""
    draft = f"{repository.common}.{os.urandom(6).hex()}"
    make_private(os.path.dirname(repository.common))  # noqa: PTH120
    form = ("--object-format=sha256",) if sha256 else ()
    try:
        git("init", "--quiet", "--bare", "--template=", "--initial-branch=fleet/none", *form, "--", draft)
        shutil.rmtree(repository.common, ignore_errors=True)  # an incomplete and empty one
        os.replace(draft, repository.common)
    except (GitFault, OSError) as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise FleetError(f"the mirror {repository.common} cannot be made: {error}") from error


def _put_right(repository: Repository, url: str, *, sha256: bool) -> None:
    """Rewrite the settings that fleet wrote, because only agents could have changed them."""
    quoted = url.replace("\\", "\\\\").replace('"', '\\"')
    lines = ["[core]", f"\trepositoryformatversion = {int(sha256)}", "\tfilemode = true", "\tbare = true"]
    lines += ["[extensions]", "\tobjectformat = sha256"] if sha256 else []
    lines += ['[remote "origin"]', f'\turl = "{quoted}"', f"\tfetch = +refs/heads/*:{SEEN}/*", ""]
    text, path = os.fsencode("\n".join(lines)), os.path.join(repository.common, "config")
    if os.path.islink(path) or not os.path.isfile(path):
        _clear_path(path)
    if os.fsencode(read(path, MOST_PROJECT)) != text:
        atomic_write(path, text, 0o600)
    for name in ("hooks", "config.worktree", "info/attributes"):
        _clear_path(os.path.join(repository.common, name))


def _clear_path(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.unlink(path)


def _folder(home: Home) -> str:
    return os.path.realpath(home.mirrors)


def _hash_url(url: str) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", url.rstrip("/").rpartition("/")[2].rpartition(":")[2])
    plain = name.removesuffix(".git").strip(".-")[:40] or "repository"
    return f"{plain}-{sha256(url.encode('utf-8', 'surrogateescape'))[:12]}"
