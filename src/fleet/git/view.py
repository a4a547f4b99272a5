"""fleet's view of a repository: its objects and refs, with only fleet's settings and without hooks and attributes.

An agent can write to its repository's `.git`, including settings, hooks, filters and worktree pointers. Git run there
would obey them. A view is a git directory in fleet's home. Its `objects` and `refs` are those of the repository, and
fleet wrote its `config`. fleet reads and writes objects and refs only through the view, which obeys no one else.

A view takes over some of the repository's settings when it is first made and when the repository is trusted again.
These settings affect bytes and paths and run nothing (`view_config`).
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.files import atomic_write, make_private
from fleet.git.name_readers import FORM, ask_reader
from fleet.git.process import GitFault, git
from fleet.git.repository import refuse_foreign_parts, refuse_gone
from fleet.git.untrusted_folders import delete
from fleet.git.worktree_records import COMMIT, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fleet.git.repository import Repository
    from fleet.home import Home


# ruff: noqa: PTH111, PTH117


HEADLINE = "# Written by fleet: what git obeys when fleet looks at this repository.\n"
OWN = {
    "core.bare": "true",
    "core.logAllRefUpdates": "always",
    "core.quotePath": "false",
    "core.autocrlf": "false",
    "core.safecrlf": "false",
    "user.name": "fleet",
    "user.email": "fleet@localhost",
    "commit.gpgSign": "false",
}
#: Settings that affect bytes and paths, and their allowed values.
BOOLEAN = ("true", "false")
TAKEN_OVER = {
    "core.ignorecase": BOOLEAN,
    "core.filemode": BOOLEAN,
    "core.symlinks": BOOLEAN,
    "core.precomposeunicode": BOOLEAN,
    "core.autocrlf": (*BOOLEAN, "input"),
    "core.eol": ("lf", "crlf", "native"),
}
#: Git's spellings of true and false.
SPELLINGS = {"yes": "true", "on": "true", "1": "true", "": "true", "no": "false", "off": "false", "0": "false"}
#: The settings that `git lfs install` writes, the second with --skip-smudge. Other filters of this name are not LFS.
LFS = {
    "filter.lfs.clean": ("git-lfs clean -- %f",),
    "filter.lfs.smudge": ("git-lfs smudge -- %f", "git-lfs smudge --skip -- %f"),
    "filter.lfs.process": ("git-lfs filter-process", "git-lfs filter-process --skip"),
}
_FORMATS = {"core.repositoryFormatVersion": ("0", "1"), "extensions.objectFormat": ("sha256",)}
#: A setting in the format of `_lines`.
_WRITTEN = re.compile(r'\[([a-z]+)(?: "([a-z]+)")?\]\n\t([A-Za-z]+) = "((?:[^"\\\n]|\\["\\])*)"\n')
#: A line in a view's settings that means that LFS needs its store there.
NEEDS_LFS = '[filter "lfs"]'


def config_text(listed: str, *, top: str) -> str:
    """Return the view's settings for the output of `git config --null --list` in the repository. Raises FleetError."""
    theirs = _settings(listed)
    if theirs.get("extensions.refstorage", "files") != "files":
        raise FleetError(
            f"{top} keeps its refs in the form {theirs['extensions.refstorage']!r}, which fleet cannot read",
            hint="run `git refs migrate --ref-format=files` to convert them",
        )
    ours = OWN | _taken_over(theirs) | _select_lfs(theirs)
    sha256 = theirs.get("extensions.objectformat") == "sha256"
    ours["core.repositoryFormatVersion"] = "1" if sha256 else "0"
    if sha256:
        ours["extensions.objectFormat"] = "sha256"
    return HEADLINE + "".join(_lines(key, value) for key, value in sorted(ours.items()))


def is_fleets(text: str) -> bool:
    """Return True if the settings of a view are exactly as fleet writes them, without changes by others."""
    if not text.startswith(HEADLINE):
        return False
    body = text[len(HEADLINE) :]
    values: dict[str, str] = {}
    for head, sub, name, quoted in _WRITTEN.findall(body):
        key = f"{head}.{sub}.{name}" if sub else f"{head}.{name}"
        values[key] = quoted.replace('\\"', '"').replace("\\\\", "\\")
    if "".join(_lines(key, value) for key, value in sorted(values.items())) != body:
        return False
    lfs = {key: value for key, value in values.items() if key.startswith("filter.")}
    return (
        OWN.keys() <= values.keys()
        and (not lfs or lfs == _select_lfs(lfs))
        and all(key in lfs or _may_be(key, value) for key, value in values.items())
    )


def _may_be(key: str, value: str) -> bool:
    if key == "core.excludesFile":
        return os.path.isabs(value) and value.isprintable()
    return value == OWN.get(key) or value in {**TAKEN_OVER, **_FORMATS}.get(key, ())


def _settings(listed: str) -> dict[str, str]:
    entries = (entry.partition("\n") for entry in listed.split("\0") if entry)
    return {key: value for key, _, value in entries}


def _taken_over(theirs: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for key, allowed in TAKEN_OVER.items():
        value = theirs.get(key, "-").lower()
        value = SPELLINGS.get(value, value)
        if value in allowed:
            found[key] = value
    excludes = os.path.expanduser(theirs.get("core.excludesfile", ""))
    if os.path.isabs(excludes) and excludes.isprintable():
        found["core.excludesFile"] = excludes
    return found


def _select_lfs(theirs: Mapping[str, str]) -> dict[str, str]:
    if any(theirs.get(key) not in allowed for key, allowed in LFS.items()):
        return {}
    return {key: theirs[key] for key in LFS} | {"filter.lfs.required": "true"}


def _lines(key: str, value: str) -> str:
    section, _, name = key.rpartition(".")
    head, _, sub = section.partition(".")
    title = f'{head} "{sub}"' if sub else head
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'[{title}]\n\t{name} = "{quoted}"\n'


# ruff: noqa: PTH113, PTH118


MOST_PACKED = 64 * 1024 * 1024


def branch_tip(repository: Repository, branch: str) -> str | None:
    """Return the commit of a branch, or None if missing. Git runs only for a ref that is not a plain commit."""
    name = f"refs/heads/{branch}"
    loose = read(os.path.join(repository.common, name)).strip()
    if COMMIT.fullmatch(loose):
        return loose
    if loose:  # a symbolic ref or invalid content
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        told = git(*words, cwd=repository.common, env={"GIT_DIR": repository.common}, allow=(1, 128))
        return told.decode().strip() or None
    packed = read(os.path.join(repository.common, "packed-refs"), MOST_PACKED)
    found = re.search(rf"^([0-9a-f]+) {re.escape(name)}$", packed, re.MULTILINE)
    return found[1] if found and COMMIT.fullmatch(found[1]) else None


def in_the_way(repository: Repository, branch: str) -> str:
    """Return an existing branch that git cannot keep beside this one, or "".

    Git cannot keep two branches if the name of one is a folder of the other.
    """
    heads = os.path.join(repository.common, "refs", "heads")
    if found := next((each for each in _list_branches_above(branch) if os.path.isfile(os.path.join(heads, each))), ""):
        return found
    for folder, _, names in os.walk(os.path.join(heads, branch)):
        if name := next((each for each in sorted(names) if not each.endswith(".lock")), ""):
            return os.path.relpath(os.path.join(folder, name), heads)
    return _find_packed(repository, _list_branches_above(branch), branch)


def _list_branches_above(branch: str) -> list[str]:
    parts = branch.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _find_packed(repository: Repository, names: list[str], folder: str) -> str:
    """Return a packed branch that has one of these names or is below a folder."""
    packed = read(os.path.join(repository.common, "packed-refs"), MOST_PACKED)
    if " refs/heads/" not in packed:
        return ""
    exact = "".join(f"{re.escape(each)}|" for each in names)
    found = re.search(rf" refs/heads/({exact}{re.escape(folder)}/.+)$", packed, re.MULTILINE)
    return found[1] if found else ""


# ruff: noqa: PTH103, PTH104, PTH105, PTH112, PTH114, PTH115, PTH118


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
            raise FleetError("git did not resolve each name", hint="a name cannot contain a line break")
        return [made if kind == "commit" and made.isalnum() else None for made, kind in rows]

    def kinds(self, names: Iterable[bytes], env: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
        """Return the id and type of each named object, or the name and "missing"."""
        asked = b"".join(name + b"\n" for name in names)
        return _parse_rows(self.git("cat-file", FORM, env=env, stdin=asked).split(b"\n")[:-1])

    def known_kinds(self, names: Sequence[bytes]) -> list[tuple[str, str]]:
        """Return the same for names that are complete. In a supervisor, a long-lived git process answers."""
        self.make()
        told = ask_reader(self.path, ALONE, names)
        return self.kinds(names) if told is None else _parse_rows(told)

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
        self._write_config(config if own else self._taken_over())

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
            log.warning("%s of %s was not written by fleet: moved to %s", name, self.path, folder)
            kept = os.path.join(folder, name.replace("/", "-"))
            with contextlib.suppress(FileNotFoundError):  # another process did it already
                if os.path.lexists(kept):
                    delete(kept)
                os.rename(os.path.join(self.path, name), kept)

    def adopt(self) -> None:
        """Take over the repository's current settings, after it has been trusted."""
        self._write_config(self._taken_over())

    def _taken_over(self) -> str:
        # Git only lists here and obeys none of it.
        listed = git("config", "--null", "--list", cwd="/", env={"GIT_DIR": self.repository.common})
        return config_text(os.fsdecode(listed), top=self.repository.top)

    def _write_config(self, config: str) -> None:
        common = self.repository.common
        for folder in ("logs", "info"):
            make_private(os.path.join(self.path, folder))
        # Git creates files through a dangling link, but not folders.
        shared = (*SHARED, "lfs") if NEEDS_LFS in config else SHARED
        for name in {"logs/refs", "lfs"} & set(shared):
            os.makedirs(os.path.join(common, name), exist_ok=True)
        for name in shared:
            _ensure_link(os.path.join(common, name), os.path.join(self.path, name))
        for name, text in (("HEAD", HEAD), ("config", config)):
            if self._read(name) != text:
                atomic_write(os.path.join(self.path, name), os.fsencode(text), 0o600)
        self._made = True

    def _read(self, name: str) -> str:
        return read(os.path.join(self.path, name), 1 << 20)


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _parse_rows(lines: Iterable[bytes]) -> list[tuple[str, str]]:
    rows = (os.fsdecode(line).rpartition(" ") for line in lines)
    return [(name, kind) for name, _, kind in rows]


def _keep_private(index: str) -> None:
    """Make an index private, because git creates it with the umask."""
    with contextlib.suppress(OSError):
        if os.stat(index).st_mode & 0o077:  # noqa: PTH116
            os.chmod(index, 0o600)  # noqa: PTH101


def _ensure_link(target: str, path: str) -> None:
    if os.path.islink(path) and os.readlink(path) == target:
        return
    # Renamed into place, because several processes may do this at once.
    draft = f"{path}.{os.urandom(6).hex()}"
    os.symlink(target, draft)  # noqa: PTH211
    os.replace(draft, path)
