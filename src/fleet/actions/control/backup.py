"""Backups of a home in one file, written while fleet runs: database, settings, tasks, and refs of unmerged work."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import tempfile
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from fleet import __version__
from fleet.actions.control.archive import (
    BUNDLES,
    FOLDERS,
    FORMAT,
    HOME,
    MANIFEST,
    SETTINGS,
    add_file,
    add_folder,
    is_backup,
)
from fleet.actions.control.other_hosts import here
from fleet.actions.tasks.rights import refuse_agents
from fleet.assembly import beads_turn, copy_embedded, open_fleet
from fleet.core.clock import now
from fleet.core.errors import BadInput, FleetError
from fleet.core.jsontext import encode
from fleet.git.bundles import refs_to_keep, write_bundle
from fleet.git.repository import Repository, RepositoryGone
from fleet.git.view import View
from fleet.home import quoted
from fleet.settings.queue import BEADS, PASSWORDS, POSTGRES, choose_queue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from fleet.core.task import Caller
    from fleet.home import Home

    Tell = Callable[[str], None]

BEADS_BUSY = "bd wrote to its folder during the copy: stop the programs that use bd, then run `fleet backup` again"


class Backup(NamedTuple):
    """The content of a backup, and what it leaves out."""

    file: str
    size: int
    queue: str
    files: int
    left_out: list[str]  # links, sockets and devices in task folders
    repositories: list[dict[str, Any]]
    to_do: list[str]  # commands that the user must run in addition

    def view(self) -> dict[str, Any]:
        return {**self._asdict(), "left_out": list(self.left_out)}


def backup(home: Home, path: str, *, tell: Tell, caller: Caller | None = None) -> Backup:
    """Write a backup of a home to a file. The file is complete or does not exist. Raises BadInput and FleetError."""
    refuse_agents(caller, "back up the fleet")
    home.require()
    target = os.path.abspath(path)  # noqa: PTH100 - paths of the home are strings
    folder, name = os.path.split(target)
    if os.path.isdir(target):  # noqa: PTH112
        raise BadInput(f"cannot write {path}: it is a directory", hint="pass the path of a file")
    if not os.path.isdir(folder):  # noqa: PTH112
        raise BadInput(f"cannot write {path}: {folder} is not a directory", hint="pass the path of a file")
    if home.contains(target):
        raise BadInput(f"cannot write {path}: it is inside the home", hint="pass the path of a file outside the home")
    if os.path.lexists(target) and not is_backup(target):
        raise BadInput(f"cannot write {path}: it exists and is not a backup", hint="pass the path of a new file")
    draft = os.path.join(folder, f".{name[:100]}.{os.urandom(6).hex()}.part")  # noqa: PTH118
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        # The work folder is next to the file, because the disk of the home may be full.
        with os.fdopen(handle, "wb") as file, tempfile.TemporaryDirectory(prefix=".backup-", dir=folder) as work:
            with tarfile.open(fileobj=file, mode="w:gz", compresslevel=6) as tar:
                made = _Making(home, tar, work, tell).make()
            file.flush()
            os.fsync(file.fileno())
            size = os.fstat(file.fileno()).st_size
        os.replace(draft, target)  # noqa: PTH105
    except OSError as error:
        raise FleetError(
            f"cannot write {path}: {error.strerror or error}", hint="check the folder and the disk"
        ) from error
    finally:
        if os.path.lexists(draft):
            os.unlink(draft)  # noqa: PTH108
    return made._replace(file=target, size=size)


class _Making:
    """A backup in progress."""

    def __init__(self, home: Home, tar: tarfile.TarFile, work: str, tell: Tell) -> None:
        self._home, self._tar, self._work, self._tell = home, tar, work, tell
        self._left_out: list[str] = []
        self._to_do: list[str] = []
        self._files = 0

    def make(self) -> Backup:
        """Add all parts. The database comes first, so files copied later are never older than the database says."""
        home, choice = self._home, choose_queue(self._home, os.environ)
        with open_fleet(home) as fleet:
            spaces = here(fleet, fleet.store.workspaces.find(gone=True))
        if choice.kind == POSTGRES:
            self._to_do.append(f"pg_dump --format=custom --file=fleet.dump {quoted(without_password(choice.url))}")
        if os.path.exists(home.database):  # noqa: PTH110
            self._tell("copying the database")
            copy_embedded(home, f"{self._work}/fleet.db")
            self._add(f"{self._work}/fleet.db", "fleet.db")
        for name in SETTINGS:
            self._add(home.member(name), name)
        for name in FOLDERS:
            if name != ".beads":
                self._add_folder(home.member(name), name)
        if choice.kind == BEADS:
            self._add_beads()
        commons = {space.common: space.repo for space in spaces}
        repositories = [
            self._repository(
                Repository(top=top, common=common), [space.branch for space in spaces if space.common == common]
            )
            for common, top in sorted(commons.items())
        ]
        manifest = {
            "format": FORMAT,
            "fleet": __version__,
            "made_at": now().isoformat(timespec="seconds"),
            "home": home.root,
            "queue": choice.kind,
            "repositories": repositories,
        }
        data = encode(manifest, 2).encode("utf-8", "surrogateescape")
        member = tarfile.TarInfo(MANIFEST)
        member.size, member.mode = len(data), 0o600
        self._tar.addfile(member, io.BytesIO(data))
        return Backup("", 0, choice.kind, self._files, self._left_out, repositories, self._to_do)

    def _add(self, path: str, name: str) -> None:
        if add_file(self._tar, path, f"{HOME}{name}") is not None:
            self._files += 1

    def _add_folder(self, folder: str, name: str) -> None:
        if not os.path.isdir(folder):  # noqa: PTH112
            return
        count, size = 0, 0
        for each in add_folder(self._tar, folder, f"{HOME}{name}", self._left_out):
            count, size = count + 1, size + each
            if count % 1000 == 0:
                self._tell(f"{name}: {count} files, {size / 1e6:.0f} MB so far")
        self._tell(f"{name}: {count} files, {size / 1e6:.1f} MB")
        self._files += count

    def _add_beads(self) -> None:
        """Add the folder of bd, unless bd wrote to it during the copy."""
        copy = f"{self._work}/beads"
        with beads_turn(self._home):
            before = sorted(_stamps(self._home.beads))
            try:
                shutil.copytree(self._home.beads, copy, symlinks=True, ignore=_not_plain)
            except (OSError, shutil.Error):
                before = []
            is_whole = bool(before) and before == sorted(_stamps(self._home.beads))
        if is_whole:
            self._add_folder(copy, ".beads")
        else:
            self._to_do.append(BEADS_BUSY)

    def _repository(self, repository: Repository, branches: list[str]) -> dict[str, Any]:
        """Add the unmerged work of one repository. Return its manifest entry."""
        told: dict[str, Any] = {"path": repository.top, "common": repository.common, "refs": {}, "bundle": ""}
        file = f"{self._work}/{repository.key}.bundle"
        try:
            view = View(self._home, repository)
            told["refs"] = refs_to_keep(view, branches)
            if told["refs"] and write_bundle(view, file, told["refs"]):
                told["bundle"] = f"{BUNDLES}{repository.key}.bundle"
                add_file(self._tar, file, told["bundle"])
                os.unlink(file)  # noqa: PTH108
        except FleetError as error:  # the other repositories are still backed up
            told |= {"why_not": str(error), "failed": not isinstance(error, RepositoryGone)}
        refs = len(told["refs"])
        self._tell(f"{repository.top}: {told.get('why_not') or f'{refs} refs'}")
        return told


def without_password(url: str) -> str:
    """Return a connection string without its secrets. The user types the password or has it in ~/.pgpass."""
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    netloc = f"{user.partition(':')[0]}@{host}" if user else host
    query = [(key, value) for key, value in parse_qsl(parts.query) if key.lower() not in PASSWORDS]
    return parts._replace(netloc=netloc, query=urlencode(query)).geturl()


def _stamps(folder: str) -> Iterator[tuple[str, int, int]]:
    for root, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(root, name)  # noqa: PTH118
            found = os.lstat(path)
            yield path, found.st_size, found.st_mtime_ns


def _not_plain(folder: str, names: list[str]) -> list[str]:
    """Return the names of sockets and pipes, which cannot be copied."""
    paths = {name: os.path.join(folder, name) for name in names}  # noqa: PTH118
    kept = (os.path.isfile, os.path.isdir, os.path.islink)
    return [name for name, path in paths.items() if not any(is_kind(path) for is_kind in kept)]
