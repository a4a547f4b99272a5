"""fleet's view of a repository: its objects and refs, with only fleet's settings and without hooks and attributes.

An agent can write to its repository's `.git`, including settings, hooks, filters and worktree pointers. Git run there
would obey them. A view is a git directory in fleet's home. Its `objects` and `refs` are those of the repository, and
fleet wrote its `config`. fleet reads and writes objects and refs only through the view, which obeys no one else.

A view takes over some of the repository's settings when it is first made and when the repository is trusted again.
These settings affect bytes and paths and run nothing (`view_config`).
"""

# ruff: noqa: PTH103, PTH104, PTH105, PTH112, PTH114, PTH115, PTH118
from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.files import atomic_write, make_private
from fleet.workspaces.admin import read
from fleet.workspaces.deleting import delete
from fleet.workspaces.git import GitFault, git
from fleet.workspaces.name_readers import FORM, ask_reader
from fleet.workspaces.refs import branch_tip
from fleet.workspaces.repository import refuse_foreign_parts, refuse_gone
from fleet.workspaces.view_config import HEADLINE, NEEDS_LFS, config_text, is_fleets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fleet.home import Home
    from fleet.workspaces.repository import Repository

#: Parts that the view shares with the repository, at the same path in both.
SHARED = ("objects", "refs", "packed-refs", "shallow", "logs/refs", "info/exclude")
#: Files that git would obey in a view and that fleet never creates. If found, they are moved to PLANTED.
FOREIGN = (
    *("commondir", "config.worktree", "gitdir", "hooks", "modules", "worktrees"),
    *("info/attributes", "info/grafts", "info/sparse-checkout"),
)
PLANTED = "planted"
HEAD = "ref: refs/heads/fleet/none\n"
#: Full branch names without characters that git interprets.
BRANCHES = "refs/heads/"
PLAIN = re.compile(rf"{BRANCHES}[A-Za-z0-9_][A-Za-z0-9_-]*(?:[/.][A-Za-z0-9_-]+)*")
#: Only the view's own settings count, and no object may replace another one, which an agent could arrange.
ALONE = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",  # ignores replacement objects that an agent may have set
}


class View:
    """Git on a repository's objects and refs, with only fleet's settings."""

    def __init__(self, home: Home, repository: Repository) -> None:
        self.repository, self.home = repository, home.root
        self.path = home.repository(repository.key)
        self._made = False

    def git(
        self,
        *words: str,
        tree: str | None = None,  # the directory of the work tree
        index: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        allow: tuple[int, ...] = (),
    ) -> bytes:
        """Return git's output. Raises GitFault."""
        self.make()
        more = ALONE | {"GIT_DIR": self.path}
        more |= {"GIT_WORK_TREE": tree} if tree else {}
        more |= {"GIT_INDEX_FILE": index} if index else {}
        told = git(*words, cwd=tree, env=more | dict(env or {}), stdin=stdin, allow=allow)
        if index:
            _keep_private(index)
        return told

    def text(self, *words: str) -> str:
        return os.fsdecode(self.git(*words)).removesuffix("\n")

    def commit_of(self, name: str) -> str | None:
        """Return the commit that a name refers to, or None. The name is never treated as an option."""
        found = self.git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", allow=(1, 128))
        commit = found.decode().strip()
        return commit if commit.isalnum() else None  # a range gives two

    def tip_of(self, branch: str) -> str | None:
        """Return the commit of a branch, or None if missing."""
        with contextlib.suppress(GitFault):  # git cannot read the repository
            (commit,) = self.resolve_each([f"{BRANCHES}{branch}"]) if "\n" not in branch else (None,)
            return commit
        return None

    def resolve(self, *names: str) -> list[str | None]:
        """Return the commit that each name refers to, or None, in at most one call of git.

        A branch ref holds a commit.
        """
        if all(map(PLAIN.fullmatch, names)):
            return [branch_tip(self.repository, name.removeprefix(BRANCHES)) for name in names]
        return self.resolve_each(names)

    def resolve_each(self, names: Sequence[str]) -> list[str | None]:
        """Return the commit that each name refers to, or None, according to git in one call."""
        rows = self.known_kinds([os.fsencode(f"{name}^{{commit}}") for name in names]) if names else []
        if len(rows) != len(names) or any("\n" in name for name in names):
            raise FleetError("git did not say what each name means", hint="a name with a line's end is none.")
        return [made if kind == "commit" and made.isalnum() else None for made, kind in rows]

    def kinds(self, names: Iterable[bytes], env: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
        """Return the id and type of each named object, or the name and "missing"."""
        asked = b"".join(name + b"\n" for name in names)
        return _rows(self.git("cat-file", FORM, env=env, stdin=asked).split(b"\n")[:-1])

    def known_kinds(self, names: Sequence[bytes]) -> list[tuple[str, str]]:
        """Return the same for names that are complete. In a supervisor, a long-lived git process answers."""
        self.make()
        told = ask_reader(self.path, ALONE, names)
        return self.kinds(names) if told is None else _rows(told)

    def make(self) -> None:
        """Create missing parts of the view and repair the others. Raises RepositoryGone, NotOwned."""
        if self._made:
            return
        refuse_gone(self.repository.common)
        refuse_foreign_parts(self.repository)
        config = self._read("config")
        own = is_fleets(config)
        planted = [name for name in FOREIGN if os.path.lexists(os.path.join(self.path, name))]
        planted += [name for name in SHARED if _is_folder(os.path.join(self.path, name))]
        planted += ["config"] if config.startswith(HEADLINE) and not own else []
        if planted:
            self._put_aside(planted)
        self._write(config if own else self._taken_over())

    def planted(self, since: float) -> list[str]:
        """Return the files that others put into the view since a moment and that fleet moved aside."""
        self.make()
        folder, found = os.path.join(self.path, PLANTED), []
        with contextlib.suppress(OSError):
            for entry in os.scandir(folder):
                found += [entry.name] if entry.stat(follow_symlinks=False).st_mtime >= since else []
        return sorted(found)[: len(FOREIGN)]

    def _put_aside(self, names: Iterable[str]) -> None:
        """Move files of others out of the view. The newest version of each is kept for inspection."""
        folder = os.path.join(self.path, PLANTED)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        import logging

        log = logging.getLogger(__name__)
        for name in names:
            log.warning("%s of %s was not written by fleet: it is in %s now", name, self.path, folder)
            kept = os.path.join(folder, name.replace("/", "-"))
            with contextlib.suppress(FileNotFoundError):  # another process did it already
                if os.path.lexists(kept):
                    delete(kept)
                os.rename(os.path.join(self.path, name), kept)

    def adopt(self) -> None:
        """Take over the repository's current settings, after it has been trusted."""
        self._write(self._taken_over())

    def _taken_over(self) -> str:
        # Git only lists here and obeys none of it.
        listed = git("config", "--null", "--list", cwd="/", env={"GIT_DIR": self.repository.common})
        return config_text(os.fsdecode(listed), top=self.repository.top)

    def _write(self, config: str) -> None:
        common = self.repository.common
        for folder in ("logs", "info"):
            make_private(os.path.join(self.path, folder))
        # Git creates files through a dangling link, but not folders.
        shared = (*SHARED, "lfs") if NEEDS_LFS in config else SHARED
        for name in {"logs/refs", "lfs"} & set(shared):
            os.makedirs(os.path.join(common, name), exist_ok=True)
        for name in shared:
            _link(os.path.join(common, name), os.path.join(self.path, name))
        for name, text in (("HEAD", HEAD), ("config", config)):
            if self._read(name) != text:
                atomic_write(os.path.join(self.path, name), os.fsencode(text), 0o600)
        self._made = True

    def _read(self, name: str) -> str:
        return read(os.path.join(self.path, name), 1 << 20)


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _rows(lines: Iterable[bytes]) -> list[tuple[str, str]]:
    rows = (os.fsdecode(line).rpartition(" ") for line in lines)
    return [(name, kind) for name, _, kind in rows]


def _keep_private(index: str) -> None:
    """Make an index private, because git creates it with the umask."""
    with contextlib.suppress(OSError):
        if os.stat(index).st_mode & 0o077:  # noqa: PTH116
            os.chmod(index, 0o600)  # noqa: PTH101


def _link(target: str, path: str) -> None:
    if os.path.islink(path) and os.readlink(path) == target:
        return
    # Renamed into place, because several processes may do this at once.
    draft = f"{path}.{os.urandom(6).hex()}"
    os.symlink(target, draft)  # noqa: PTH211
    os.replace(draft, path)
