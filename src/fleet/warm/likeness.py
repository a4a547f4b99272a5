"""Whether a fork of the warm process is what the caller would be: the same program, in the same circumstances.

What does not matter for a command, or is handed over with it, is left out; all else must be equal, or the caller runs
its command itself. So an upgrade is never served by old code, and nobody gets out of a sandbox, a namespace or a limit.
"""

# On the path of every command: nothing heavy is imported.
# ruff: noqa: PTH115, PTH116, PTH120, PTH123
from __future__ import annotations

import os
import sys

import fleet

TYPE_CHECKING = False
if TYPE_CHECKING:
    Fact = tuple[int, int, int] | None

#: The interpreter reads these when it starts; what it made of them stays.
READ_AT_START = ("LANG", "LC_ALL", "LC_CTYPE")
#: Who a process is and what it may do (proc(5)); which signals it blocks and ignores.
STATUS = (
    *("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"),
    *("NoNewPrivs", "Seccomp", "SigBlk", "SigIgn"),
)
FLAGS = (
    "optimize",
    "no_user_site",
    "no_site",
    "ignore_environment",
    "bytes_warning",
    "dev_mode",
    "utf8_mode",
    "isolated",
)
NAMESPACES = ("mnt", "pid", "user", "net", "ipc", "uts", "cgroup", "time")


def program() -> bytes:
    """What this process would run: the interpreter, its switches, where it looks for modules, and where fleet lies."""
    flags = [(name, getattr(sys.flags, name)) for name in FLAGS]
    # Without -P the first place is where the program itself lies, or the current directory.
    paths = sys.path if sys.flags.safe_path else sys.path[1:]
    names = sorted(name for name in os.environ if name.startswith("PYTHON") or name in READ_AT_START)
    facts = (
        *(sys.version, sys.prefix, sys.getfilesystemencoding(), flags, sys.warnoptions, sorted(sys._xoptions.items())),
        *(paths, [(name, os.environ[name]) for name in names], fleet.__file__),
    )
    return repr(facts).encode("utf-8", "surrogateescape")


def files() -> list[tuple[str, Fact]]:
    """Every file of fleet, and what is installed beside it, with what changes when it does."""
    paths = sys.path if sys.flags.safe_path else sys.path[1:]
    return [(path, fact_of(path)) for path in (*paths, *_files(os.path.dirname(fleet.__file__)))]


def fact_of(path: str) -> Fact:
    """What changes when a file does; none where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def circumstances(pid: int) -> tuple[list[str], int]:
    """Everything about a process that its program cannot change back, and its umask. Raises OSError, ValueError."""
    status = dict(line.split(":", 1) for line in _text(pid, "status").splitlines() if ":" in line)
    facts = [f"{name}:{status.get(name)}" for name in STATUS]
    facts += [os.readlink(f"/proc/{pid}/ns/{name}") for name in NAMESPACES if os.path.lexists(f"/proc/self/ns/{name}")]
    root = os.stat(f"/proc/{pid}/root/")
    facts += [f"{root.st_dev}:{root.st_ino}", str(os.getpriority(os.PRIO_PROCESS, pid)), _text(pid, "limits")]
    return facts, int(status["Umask"], 8)


def is_beside(pid: int) -> bool:
    """Whether a process of this user lives where we live, and not in a namespace that an agent was put into."""
    places = [[os.readlink(f"/proc/{each}/ns/{name}") for name in NAMESPACES[:3]] for each in (pid, "self")]
    return places[0] == places[1]


def _files(folder: str) -> list[str]:
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir() and entry.name != "__pycache__":
                found += _files(entry.path)
            elif not entry.is_dir():
                found.append(entry.path)
    return found


def _text(pid: int, name: str) -> str:
    with open(f"/proc/{pid}/{name}", encoding="ascii", errors="replace") as file:
        return file.read(65536)
