"""Restoring a backup into a home. Existing data stays or is kept under another name; nothing on disk is lost."""

from __future__ import annotations

import contextlib
import os
import shutil
import tarfile
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.control.archive import BUNDLES, FOLDERS, HOME, SETTINGS, checked
from fleet.actions.tasks.rights import refuse_agents
from fleet.assembly import check_embedded, copy_embedded, refuse_foreign
from fleet.core.clock import now
from fleet.core.errors import BadInput, FleetError, StoreFault
from fleet.files import make_private
from fleet.git.bundles import take_back
from fleet.git.repository import Repository
from fleet.git.view import View
from fleet.home import quoted, write_programs
from fleet.settings.queue import POSTGRES
from fleet.supervisor.lock import Single

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from fleet.core.task import Caller
    from fleet.home import Home

    Tell = Callable[[str], None]

PG_RESTORE = "pg_restore --clean --if-exists --dbname=CONNECTION fleet.dump"


class RestoreReport(NamedTuple):
    """A report of what was restored, what was kept, and what the user still has to do."""

    made_at: str
    files: int  # missing files that were restored
    kept_files: int  # files of task folders that differ on disk and were not changed
    beside: list[str]  # the new places of the home's own database and settings
    repositories: list[dict[str, Any]]
    to_do: list[str]

    def view(self) -> dict[str, Any]:
        return self._asdict()


def restore(home: Home, path: str, *, tell: Tell, caller: Caller | None = None) -> RestoreReport:
    """Restore a backup into a home. Raises BadInput, SupervisorRunning, StoreFault, FleetError.

    An interrupted restore can be repeated, because the database is put in place last.
    """
    refuse_agents(caller, "restore a backup")
    tell("reading the backup")
    manifest = checked(path)
    refuse_foreign(home)
    home.make()
    single = Single(home)
    single.take()
    try:
        work = home.restoring
        shutil.rmtree(work, ignore_errors=True)  # left by an interrupted restore
        os.mkdir(work, 0o700)  # noqa: PTH102
        restored = _Restoring(home, path, work, manifest, tell).restore()
        shutil.rmtree(work)
        return restored
    except (OSError, tarfile.TarError) as error:
        hint = "run the same command again; nothing was lost"
        raise FleetError(f"cannot restore {path}: {getattr(error, 'strerror', '') or error}", hint=hint) from error
    finally:
        single.release()


class _Restoring:
    """The restore of one backup into a home."""

    def __init__(self, home: Home, path: str, work: str, manifest: dict[str, Any], tell: Tell) -> None:
        self._home, self._path, self._work, self._manifest, self._tell = home, path, work, manifest, tell
        self._stamp = now().strftime("%Y%m%dT%H%M%S.%fZ")  # two restores in one second keep both copies
        self._files, self._kept = 0, 0
        self._beside: list[str] = []
        self._to_do: list[str] = []

    def restore(self) -> RestoreReport:
        """Restore everything. Raises StoreFault before any change if the backup's database is damaged."""
        database = f"{self._work}/fleet.db"
        self._unpack(lambda name: name == f"{HOME}fleet.db" or name.startswith((BUNDLES, f"{HOME}.beads/")))
        if os.path.exists(database):  # noqa: PTH110
            check_embedded(database)
        self._tell("restoring task folders and settings")
        self._unpack_home()
        repositories = [self._repository(each) for each in self._manifest.get("repositories", [])]
        if os.path.isdir(f"{self._work}/.beads"):  # noqa: PTH112
            self._put_aside(".beads")
            os.rename(f"{self._work}/.beads", self._home.beads)  # noqa: PTH104
        if os.path.exists(database):  # noqa: PTH110
            self._tell("restoring the database")
            self._keep_database()
            os.rename(database, self._home.database)  # noqa: PTH104
        if self._manifest.get("queue") == POSTGRES:
            self._to_do.append(PG_RESTORE)
        write_programs(self._home)
        made_at = str(self._manifest.get("made_at", ""))
        return RestoreReport(made_at, self._files, self._kept, self._beside, repositories, self._to_do)

    def _unpack(self, wanted: Callable[[str], bool]) -> None:
        """Extract members to the private work folder, without the prefix `home/` or `repositories/`."""
        with tarfile.open(self._path, "r:gz") as tar:
            for member in tar:
                if wanted(member.name):
                    place = os.path.join(self._work, member.name.partition("/")[2])  # noqa: PTH118
                    make_private(os.path.dirname(place))  # noqa: PTH120
                    _write(tar, member, place)

    def _unpack_home(self) -> None:
        """Restore the settings, keeping the home's own beside, and those files of tasks that are missing."""
        home, folders = self._home, tuple(f"{name}/" for name in FOLDERS if name != ".beads")
        with tarfile.open(self._path, "r:gz") as tar:
            for name in set(SETTINGS) - {each.removeprefix(HOME) for each in tar.getnames()}:
                self._put_aside(name)  # it could name another queue
            for member in tar:
                name = member.name.removeprefix(HOME)
                if not member.name.startswith(HOME) or not (name in SETTINGS or name.startswith(folders)):
                    continue
                draft, place = f"{self._work}/draft", home.member(name)
                if home.has_link_above(place):
                    raise BadInput(
                        f"cannot restore {place}: a link is in the way", hint="remove the link, then restore again"
                    )
                make_private(os.path.dirname(place))  # noqa: PTH120
                _write(tar, member, draft)
                if not os.path.lexists(place):
                    self._files += 1
                elif _is_same(draft, place):
                    continue
                elif name in SETTINGS:
                    self._put_aside(name)
                else:  # an agent's later work may exist nowhere else
                    self._kept += 1
                    continue
                os.rename(draft, place)  # noqa: PTH104

    def _keep_database(self) -> None:
        """Keep the home's database, with the content of its log, under another name."""
        names = ("fleet.db", "fleet.db-wal", "fleet.db-shm")  # a log that stayed would be applied to the new database
        if os.path.exists(self._home.database):  # noqa: PTH110
            kept = self._home.set_aside("fleet.db", self._stamp)
            try:
                copy_embedded(self._home, f"{self._work}/present.db")
            except StoreFault as error:  # damaged: keep all its files as they are
                self._tell(str(error))
            else:
                os.rename(f"{self._work}/present.db", kept)  # noqa: PTH104
                self._beside.append(kept)
                for name in names:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(self._home.member(name))  # noqa: PTH108
        for name in names:
            self._put_aside(name)

    def _put_aside(self, name: str) -> None:
        """Keep a file or folder of the home under another name."""
        place, kept = self._home.member(name), self._home.set_aside(name, self._stamp)
        if os.path.lexists(place):
            os.rename(place, kept)  # noqa: PTH104
            self._beside.append(kept)

    def _repository(self, told: dict[str, Any]) -> dict[str, Any]:
        """Restore the refs of one repository. If that fails, keep the file with its commits."""
        repository = Repository(top=told["path"], common=told["common"])
        bundle = f"{self._work}/{os.path.basename(told['bundle'])}" if told["bundle"] else ""  # noqa: PTH119
        try:
            done = take_back(self._home, View(self._home, repository), bundle, told["refs"], self._stamp)
        except FleetError as error:
            found: dict[str, Any] = {"path": repository.top, "why_not": str(error)}
            if bundle:
                kept = self._home.restored_bundles(self._stamp)
                make_private(kept)
                found["bundle"] = shutil.copy(bundle, kept)
                words = f"git -C REPOSITORY fetch {quoted(found['bundle'])} 'refs/*:refs/fleet/restored/*'"
                self._to_do.append(words)
            return found
        self._tell(f"{repository.top}: {len(done.made)} refs made, {len(done.beside)} put beside those that differ")
        return {"path": repository.top, **done.as_dict(), "beside": dict(done.beside)}


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, place: str) -> None:
    source = tar.extractfile(member)
    assert source is not None
    handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        shutil.copyfileobj(source, file)
        os.fchmod(file.fileno(), 0o600 | (member.mode & 0o100))
    os.utime(place, (member.mtime, member.mtime))


def _is_same(one: str, other: str) -> bool:
    """Return True if both are plain files with the same bytes."""
    if os.path.islink(other) or not os.path.isfile(other):  # noqa: PTH113, PTH114
        return False
    with open(one, "rb") as ours, open(other, "rb") as theirs:  # noqa: PTH123
        while (part := ours.read(1 << 20)) == theirs.read(1 << 20):
            if not part:
                return True
    return False
