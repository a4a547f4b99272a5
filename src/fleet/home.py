"""The paths in the home of fleet, for all other modules, and the settings file of a project."""

# Runs on each `bd` call, where importing pathlib costs more than all of this.
# ruff: noqa: PTH100, PTH101, PTH103, PTH110, PTH111, PTH112, PTH113, PTH116, PTH118, PTH120, PTH123
from __future__ import annotations

import os
import stat
import sys

from fleet.core.errors import BadInput, HomeMissing, HomeRefused
from fleet.descent import descents
from fleet.files import atomic_write, read_small

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# SQLite's write-ahead log needs shared memory and byte locks. These file systems lack them, or limit them to one
# machine.
REFUSED_FILE_SYSTEMS = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "coda", "drvfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs"}
    | {"nfs", "nfs4", "ocfs2", "prl_fs", "smb3", "smbfs", "vboxsf"}
)
# The root of a rootless container is local, despite its name.
LOCAL_FUSE = frozenset({"fuse.fuse-overlayfs"})

#: Values of `queue` that mean the file in the home.
_IN_THE_HOME = (b'""', b"''", b'"sqlite"', b"'sqlite'")
#: Name prefix of the copies that supervisors rescued of their database.
RESCUED = "fleet.db.rescued-"
MOST_POINTER = 8192
PROJECT_FILES = (".fleet/config.toml", ".aifleet/config.toml")
#: ai-fleet's old settings file for all projects, before each project had its own.
LEGACY_SETTINGS = "~/.ai_fleet/config.toml"


class Home:
    """The paths of one `$FLEET_HOME`, as plain strings.

    Attributes and methods that name a path do not touch the disk.
    """

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(os.path.expanduser(root))
        self.database = self._path("fleet.db")
        self.settings = self._path("runtime.toml")
        self.good_settings = self._path("runtime.good.toml")
        self.tasks = self._path("tasks")
        self.bin = self._path("bin")
        self.logging = self._path("logging")
        self.supervisor_output = self._path("logging/supervisor.out")
        self.worktrees = self._path("worktrees")
        self.templates = self._path("templates")
        self.supervisor_lock = self._path("supervisor.lock")
        self.kept_queue = self._path("queue")
        self.kept_name = self._path("name")
        self.trusted = self._path("trusted")
        self.identity = self._path("host")
        self.beads = self._path(".beads")
        self.guide = self._path("PRIME.md")  # replaces the guide that `bd prime` prints
        self.wake_pipe = self._path("wake")
        self.locks = self._path("locks")
        self.mirrors = self._path("mirrors")
        self.merges = self._path("merges")  # the journal of merges that are being moved onto their branches
        self.moves = self._path("merges/moves.jsonl")
        self.verify = self._path("verify")  # checkouts in which work is verified
        self.restoring = self._path("restoring")
        self.last_look = self._path("last-look")  # when a person last read `fleet status`
        self.seen_dialogs = self._path("seen-dialogs")  # the last dialog of each agent that a person was shown

    def _path(self, name: str) -> str:
        return os.path.join(self.root, name)

    def task(self, task_id: str) -> str:
        """Return the folder of a task. Raises BadInput if the id cannot be a folder name."""
        if task_id in ("", ".", "..") or "/" in task_id or "\0" in task_id:
            raise BadInput(f"{task_id!r} is not a valid name of a task's folder")
        return os.path.join(self.tasks, task_id)

    def run(self, task_id: str, number: int) -> str:
        """Return the folder of one run of a task. Raises BadInput."""
        return os.path.join(self.task(task_id), "runs", str(number))

    def teardown(self, task_id: str, number: int) -> str:
        """Return the folder in which one teardown command of a task is run and logged. Raises BadInput."""
        return os.path.join(self.task(task_id), "teardown", str(number))

    def worktree(self, name: str) -> str:
        """Return a worktree by its name below `worktrees`."""
        return os.path.join(self.worktrees, name)

    def template(self, name: str) -> str:
        """Return the file of the user's own prompt template."""
        return os.path.join(self.templates, name)

    def lock(self, name: str) -> str:
        """Return a lock file of fleet, such as the one for a repository."""
        return os.path.join(self.locks, name)

    def repository(self, key: str) -> str:
        """Return the git folder through which fleet reads one repository."""
        return os.path.join(self.root, "repositories", key)

    def merge(self, token: str) -> str:
        """Return the journal entry of one merge."""
        return os.path.join(self.merges, f"{token}.json")

    def verification(self, name: str) -> str:
        """Return the folder of one verification."""
        return os.path.join(self.verify, name)

    def rescued_database(self, stamp: str) -> str:
        """Return the file for a copy of a database whose path now leads to another file."""
        return self._path(RESCUED + stamp)

    def restored_bundles(self, stamp: str) -> str:
        """Return the folder for the bundles of a backup whose repositories are missing."""
        return self._path(f"restored-{stamp}")

    def member(self, name: str) -> str:
        """Return the file or folder that backups call `name`. Raises BadInput if the name leads out of the home."""
        path = os.path.normpath(self._path(name))
        if not path.startswith(os.path.join(self.root, "")):
            raise BadInput(f"{name!r} is not the name of a file in a home")
        return path

    def set_aside(self, name: str, stamp: str) -> str:
        """Return the path under which a restore keeps the old content of `name`.

        SQLite still finds a kept database's log.
        """
        file, dash, end = name.partition("-")
        return self._path(f"{file}.before-{stamp}{dash}{end}")

    def contains(self, path: str) -> bool:
        """Return True if a path, with its links resolved, is the home or is inside it."""
        return os.path.join(os.path.realpath(path), "").startswith(os.path.join(os.path.realpath(self.root), ""))

    def has_link_above(self, path: str) -> bool:
        """Return True if a folder between the home and a path in it is a symbolic link."""
        folder = os.path.dirname(path)
        return os.path.realpath(folder) != os.path.realpath(self.root) + folder.removeprefix(self.root)

    @property
    def exists(self) -> bool:
        """Return True if the home has a database, or has tasks and a queue elsewhere."""
        elsewhere = os.path.isdir(self.tasks) or self.is_only_beads
        return os.path.exists(self.database) or (elsewhere and self.names_queue(os.environ))

    @property
    def is_only_beads(self) -> bool:
        """Return True if bd has tasks here and fleet has not used this home yet."""
        return os.path.isdir(self.beads) and not os.path.exists(self.database)

    def names_queue(self, env: Mapping[str, str]) -> bool:
        """Return True if tasks may be kept outside the file here. A cheap check; if True, the settings must be read."""
        if env.get("FLEET_QUEUE") or os.path.exists(self.kept_queue) or self.is_only_beads:
            return True
        return _may_name_queue(self.settings) or (not self.has_good_copy and _may_name_queue(self.good_settings))

    @property
    def has_good_copy(self) -> bool:
        """Return True if the settings equal the last ones that were found valid."""
        try:
            now, good = os.stat(self.settings), os.stat(self.good_settings)
        except OSError:
            return False
        return (now.st_size, now.st_mtime_ns) == (good.st_size, good.st_mtime_ns)

    def require(self) -> None:
        """Raise HomeRefused or HomeMissing unless this home can be used."""
        self.check()
        if not self.exists:
            raise HomeMissing(f"no fleet home at {self.root}")

    def check(self) -> None:
        """Raise HomeRefused if other users could change the home.

        This takes one stat, cheap enough for each command.
        """
        try:
            self.root.encode()
            found = os.stat(self.root)
        except FileNotFoundError:
            return
        except UnicodeEncodeError as error:  # SQLite accepts no other names
            raise HomeRefused(f"the path of the home, {self.root!r}, is not UTF-8 text", hint=ELSEWHERE) from error
        except OSError as error:
            raise HomeRefused(f"the home {self.root} is unreachable: {error.strerror}", hint=ELSEWHERE) from error
        if not stat.S_ISDIR(found.st_mode):
            raise HomeRefused(f"the home {self.root} is not a directory", hint=ELSEWHERE)
        user = os.geteuid()
        if user not in (0, found.st_uid):
            raise HomeRefused(f"the home {self.root} belongs to another user (uid {found.st_uid})", hint=ELSEWHERE)
        if found.st_mode & 0o022:
            raise HomeRefused(
                f"the home {self.root} can be written by other users (mode {stat.S_IMODE(found.st_mode):04o})",
                hint=f"check its contents, then run `chmod 700 {quoted(self.root)}`",
            )

    def make(self) -> bool:
        """Create missing folders, private to this user. Return True if anything was changed."""
        self.check()
        refuse_file_system(self.root)
        changed = False
        try:
            for folder in (self.root, self.tasks, self.bin, self.logging):
                changed |= _private_folder(folder)
        except OSError as error:
            raise HomeRefused(f"the home {self.root} cannot be created: {error.strerror}", hint=ELSEWHERE) from error
        return changed


def _may_name_queue(path: str) -> bool:
    try:
        lines = read_small(path).split(b"\n")
    except FileNotFoundError:
        return os.path.lexists(path)  # for example a link to a file on a disk that is not mounted
    except (BadInput, OSError):
        return True  # then the last valid settings decide
    said = (line.partition(b"=") for line in lines if line.lstrip(b" \t\"'").startswith(b"queue"))
    return any(value.strip() not in _IN_THE_HOME for _, _, value in said)


ELSEWHERE = "set FLEET_HOME to a directory of your own on a local disk."


def find(env: Mapping[str, str] | None = None) -> Home:
    """Return the home of this process: FLEET_HOME, else FLEET_BASE_DIR, else its run's home, else ~/.fleet.

    An empty variable counts as not set.
    """
    said = os.environ if env is None else env
    named = said.get("FLEET_HOME") or said.get("FLEET_BASE_DIR")
    of_runs = [] if named or env is not None else [home for home, run in descents() if run]
    return Home(named or (of_runs[0] if of_runs else "~/.fleet"))


def find_project(start: str, home: Home) -> str | None:
    """Return the nearest directory, from `start` upwards, with project settings or a git checkout, or None."""
    folder = os.path.abspath(start)
    while True:
        if is_checkout(folder) or project_files(folder, home):
            return folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def find_checkout(start: str) -> str | None:
    """Return the nearest directory, from `start` upwards, that is the top of a git checkout, or None."""
    folder = os.path.abspath(start)
    while not is_checkout(folder):
        folder, before = os.path.dirname(folder), folder
        if folder == before:
            return None
    return folder


def is_checkout(folder: str) -> bool:
    """Return True if a directory is the top of a checkout. An empty `.git`, left by some sandboxes, does not count."""
    found = os.path.join(folder, ".git")
    return os.path.isfile(found) or os.path.exists(os.path.join(found, "HEAD"))


def common_of(directory: str) -> str | None:
    """Return the git directory of a directory if it has the usual layout, without starting a process, or None."""
    top = find_checkout(os.path.realpath(directory))
    if top is None:
        return None
    found = os.path.join(top, ".git")
    return found if os.path.isdir(found) else _led_to(found)


def admin_of_pointer(pointer: str) -> str | None:
    """Return git's folder for a worktree, which the worktree's file `.git` names. None if there is no such file."""
    try:
        with open(pointer, encoding="utf-8", errors="surrogateescape") as file:
            admin = file.read(MOST_POINTER)
    except OSError:
        return None
    if not admin.startswith("gitdir: "):
        return None
    return os.path.join(os.path.dirname(pointer), admin.removeprefix("gitdir: ").rstrip("\n"))


def _led_to(pointer: str) -> str | None:
    """Return the git directory that a worktree's pointer leads to, or None."""
    try:
        place = admin_of_pointer(pointer)
        if place is None:
            return None
        with open(os.path.join(place, "commondir"), encoding="utf-8", errors="surrogateescape") as file:
            return os.path.join(place, file.read(MOST_POINTER).rstrip("\n"))
    except (OSError, ValueError):
        return None  # for example a submodule, which only git resolves


def is_project_file(path: str) -> bool:
    """Return True if a path in a repository is a project file or its folder, ignoring case."""
    path = path.casefold()
    names = [name for file in PROJECT_FILES for name in (file, file.split("/")[0])]
    return path in names or path.endswith(tuple(f"/{name}" for name in names))


def project_files(folder: str, home: Home) -> list[str]:
    """Return the settings files of a project. The first one counts. A home is never treated as a project."""
    paths = (os.path.join(folder, name) for name in PROJECT_FILES)
    return [path for path in paths if os.path.isfile(path) and os.path.dirname(path) != home.root]


def has_runs(home: Home) -> bool:
    """Return True if agents of this home ran. sermakarevich/fleet has task folders too, but no runs in them."""
    tasks = (_names(os.path.join(home.tasks, task, "runs")) for task in _names(home.tasks))
    return any(name.isdecimal() for runs in tasks for name in runs)


def has_task_folders(home: Home) -> bool:
    return bool(_names(home.tasks))


def rescued(home: Home) -> list[str]:
    """Return the copies that supervisors rescued of a database whose file was replaced, oldest first."""
    return [os.path.join(home.root, name) for name in _names(home.root) if name.startswith(RESCUED)]


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208
    except OSError:
        return []


def write_programs(home: Home) -> bool:
    """Write `bin/bd` and `bin/fleet`, which use this home from any directory. Return True if anything was changed."""
    bd = _write_program(home, "bd", "from fleet.cli.bd import program; program()")
    fleet = _write_program(home, "fleet", "from fleet.__main__ import main; main()")
    return bd or fleet


def quoted(text: str) -> str:
    """Return text quoted as one word for a shell."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def refuse_file_system(path: str, mounts: str = "/proc/self/mountinfo") -> None:
    """Raise HomeRefused if SQLite is unsafe on the path's file system.

    Systems without the mount list are not checked.
    """
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as lines:
            kind = file_system(os.path.realpath(path), lines.read())
    except OSError:
        return
    if kind in REFUSED_FILE_SYSTEMS or (kind.startswith("fuse") and kind not in LOCAL_FUSE):
        raise HomeRefused(f"the home {path} is on a {kind} file system, which can damage a database", hint=ELSEWHERE)


def file_system(path: str, mountinfo: str) -> str:
    """Return the type of an absolute path's file system according to the kernel's mount list, or ""."""
    best, kind = -1, ""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = _unescaped(fields[4]).rstrip("/")
        # A later mount on the same point covers the earlier one.
        if (path == point or path.startswith(point + "/")) and len(point) >= best:
            best, kind = len(point), after.split(" ")[0]
    return kind


def _unescaped(field: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, char)
    return field


def _private_folder(path: str) -> bool:
    made = not os.path.isdir(path)
    if made:
        os.makedirs(path, 0o700, exist_ok=True)
    private = stat.S_IMODE(os.stat(path).st_mode) == 0o700
    if not private:
        os.chmod(path, 0o700)
    return made or not private


def _write_program(home: Home, name: str, code: str) -> bool:
    text = (
        "#!/bin/sh\n"
        "# Written by fleet; agents call it. It reaches this home from any directory.\n"
        f"FLEET_HOME={quoted(home.root)}\n"
        "export FLEET_HOME\n"
        f'exec {quoted(sys.executable)} -P -c {quoted(code)} "$@"\n'
    )
    path, data = os.path.join(home.bin, name), os.fsencode(text)
    try:
        with open(path, "rb") as old:
            if old.read() == data and os.access(path, os.X_OK):
                return False
    except OSError:
        pass
    atomic_write(path, data, 0o700)
    return True
