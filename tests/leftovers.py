"""The folder of a run of the tests, and the check that the run leaves nothing behind outside of it.

Every program that a test starts has the name of that folder in its environment, in its command, as its directory, or
in the path of an open file. At the end of the run such processes are leftovers, and so are mounts and network
namespaces with that name, and files that the run made outside of the folder. If root runs the tests, they have a group
of their own, which tells their files from those that other programs make meanwhile. For other users, it is new files
called as fleet and the programs it runs call theirs.
"""

import atexit
import contextlib
import fcntl
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MEMORY = Path("/dev/shm")
#: The variable that holds the name of the run's folder, and how all those names begin.
RUN, PREFIX = "FLEET_TEST_RUN", "fleet-test-"
#: Folders of this many failed runs are kept.
KEPT = 3
#: Seconds that processes have to end after the last test.
PATIENCE = 30.0
#: Free memory, in MB, that tests need to keep files in memory.
ROOM_MB = 600
#: The range of the groups of runs: high enough for no group of the machine, low enough for a container.
GROUPS = range(30_000, 60_000)
#: How names begin that fleet, its tests and the coding agents give files.
NAMES = (
    *("fleet", "flt", "corpus", "record-bd", "screen-", "tmux", "faketime", "sem.faketime", "opencode"),
    *(".fleet", ".beads", ".dolt", ".claude", ".codex", ".copilot", ".gemini", ".opencode", ".qwen"),
)
#: Folders in the checkout that tools fill.
CACHES = {"__pycache__", ".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache"}

#: What this process undoes after its last test, such as stopping servers and closing connections.
at_end = contextlib.ExitStack()
atexit.register(at_end.close)  # for programs that use the helpers of the tests without pytest


def memory_folder() -> str | None:
    """Return a folder in memory for temporary files, or None if there is no room."""
    folder = MEMORY / os.environ.get(RUN, "")
    try:
        room = os.statvfs(folder)
    except OSError:
        return None
    is_roomy = room.f_bavail * room.f_frsize > ROOM_MB * 2**20
    return str(folder) if is_roomy and os.access(folder, os.W_OK) else None


class Run:
    """A run of the tests: its folder, and the files that existed before."""

    def __init__(self) -> None:
        self._base = Path(tempfile.gettempdir())
        self._group = _own_group()
        self._before = self._files()
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=self._base))
        self._lock = (self.folder / "lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)  # held while the run lasts
        self._memory = MEMORY / self.folder.name
        with contextlib.suppress(OSError):
            self._memory.mkdir()
        for folder in (self.folder, self._memory):
            with contextlib.suppress(OSError):
                folder.chmod(0o1777)  # as /tmp, for programs that tests start as other users
        tempfile.tempdir = str(self.folder)
        os.environ.update({RUN: self.folder.name, "TMPDIR": tempfile.tempdir, "TMUX_TMPDIR": tempfile.tempdir})

    def find_leftovers(self) -> list[str]:
        """Return a line for everything the run leaves behind. Processes have some seconds to end."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = [*self._processes().values(), *(f"mount {place}" for place in self._mounts())]
            found += [f"network namespace {name}" for name in self._namespaces()]
            found += [f"file {path}" for path in sorted(self._files() - self._before)]
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.1)

    def close(self, *, keep: bool) -> None:
        """End and remove everything the run left behind; the folder only if it is not to be kept."""
        for pid in self._processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for name in self._namespaces():
            subprocess.run(["ip", "netns", "del", name], check=False)
        for place in reversed(self._mounts()):
            subprocess.run(["umount", "-l", place], check=False)
        self._lock.close()
        if not keep:
            _remove(self.folder)
        ended = [folder for folder in self._base.glob(f"{PREFIX}*") if _has_ended(folder)]
        for folder in sorted(ended, key=os.path.getmtime)[:-KEPT]:
            _remove(folder)

    def _processes(self) -> dict[int, str]:
        """Return a line for each process of the run, by its number."""
        found = {}
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                sign = next((each for each in _signs(entry) if self.folder.name.encode() in each), None)
                if sign is not None and int(entry.name) != os.getpid():
                    command = (entry / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ").strip()
                    test = re.search(rb"%s/t/(?:popen-\w+/)?(\w+)" % bytes(self.folder), sign)
                    folder = f" (folder {test[1].decode()})" if test else ""
                    found[int(entry.name)] = f"process {entry.name}: {command[:150]}{folder}"
        return found

    def _mounts(self) -> list[str]:
        with contextlib.suppress(OSError):
            places = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text("utf-8").splitlines()]
            return [place for place in places if self.folder.name in place]
        return []

    def _namespaces(self) -> list[str]:
        return [path.name for path in _list(Path("/run/netns")) if self.folder.name in path.name]

    def _files(self) -> set[str]:
        """Return the files outside the folder of the run that it can have made."""
        home = Path(pwd.getpwuid(os.getuid()).pw_dir)  # tests have another
        folders = [self._base, Path("/tmp"), Path("/var/tmp"), MEMORY, Path(f"/tmp/tmux-{os.getuid()}")]
        folders += [home, *(home / name for name in (".cache", ".config", ".local/share", ".local/state"))]
        paths = [path for folder in folders for path in _list(folder)]
        status = ["git", "--no-optional-locks", "status", "--porcelain", "--ignored", "-z"]
        lines = subprocess.run(status, cwd=ROOT, capture_output=True, text=True, check=False).stdout.split("\0")
        paths += [ROOT / line[3:] for line in lines if line.startswith(("??", "!!"))]
        paths = [path for path in paths if self._has_made(path) and not _is_in_use(path)]
        return {str(path) for path in paths if not (path.name.startswith(PREFIX) or CACHES.intersection(path.parts))}

    def _has_made(self, path: Path) -> bool:
        """Return True if the file has the group of this run, or, without such a group, a name that fleet gives."""
        if self._group is None:
            return path.name.startswith(NAMES) or path.is_relative_to(ROOT)
        with contextlib.suppress(OSError):
            return path.lstat().st_gid == self._group
        return False


def _own_group() -> int | None:
    """Give this process, and all that it starts, a separate group. Return None if that is not permitted."""
    group = GROUPS[os.getpid() % len(GROUPS)]
    try:
        os.setresgid(group, group, group)
    except OSError:
        return None
    return group


def _is_in_use(path: Path) -> bool:
    """Return True for a file of faketime, which has the number of its process, while that process lives."""
    return "faketime_" in path.name and Path("/proc", path.name.rpartition("_")[2]).is_dir()


def _signs(process: Path) -> Iterator[bytes]:
    """Yield the texts that say which run a process belongs to."""
    yield (process / "environ").read_bytes()
    if _terminal(process) in (0, _terminal(Path("/proc/self"))):  # otherwise a developer has the folder open
        yield (process / "cmdline").read_bytes()
        for link in (process / "cwd", *(process / "fd").iterdir()):
            with contextlib.suppress(OSError):
                yield bytes(link.readlink())


def _terminal(process: Path) -> int:
    return int((process / "stat").read_text("utf-8").rpartition(")")[2].split()[4])


def _list(folder: Path) -> list[Path]:
    """Return the entries of a folder, none if it cannot be read."""
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _has_ended(folder: Path) -> bool:
    """Return True if the run of this folder has ended."""
    try:
        with (folder / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return True
    except OSError:
        return False


def _remove(folder: Path) -> None:
    for each in (folder, MEMORY / folder.name):
        shutil.rmtree(each, ignore_errors=True)
