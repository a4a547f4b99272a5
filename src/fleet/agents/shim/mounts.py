"""A process's view of the file system: some folders covered, others read-only, built from kernel calls."""

# ruff: noqa: PTH103, PTH106, PTH108, PTH112, PTH114, PTH115, PTH211

import ctypes
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BIND, REC, PRIVATE, NOSUID, NODEV, DETACH = 0x1000, 0x4000, 1 << 18, 2, 4, 2
MOUNT_SETATTR, RECURSIVE, READ_ONLY = 442, 0x8000, 1
SET_DUMPABLE = 4
SHARED_MEMORY = "size=512m,mode=1777"


class Kernel:
    """Kernel calls that Python does not offer."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)

    def unshare(self, flags: int) -> bool:
        """Enter new namespaces. Return False if the kernel refuses."""
        return sys.platform == "linux" and not int(self._libc.unshare(ctypes.c_int(flags)))

    def prctl(self, option: int, value: int) -> None:
        """Set an option of this process. Errors are ignored."""
        self._libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0)

    def forget_capabilities(self) -> None:
        """Clear the inheritable capabilities, so that an exec gains nothing beyond the bounding set."""
        head = (ctypes.c_uint32 * 2)(0x20080522, 0)
        sets = (ctypes.c_uint32 * 6)()
        if self._libc.capget(head, sets) == 0:
            sets[2] = sets[5] = 0
            self._libc.capset(head, sets)

    def drop_capabilities(self) -> None:
        """Drop all capabilities, and make the process accessible to its own user like one that never had any."""
        head = (ctypes.c_uint32 * 2)(0x20080522, 0)
        self._libc.capset(head, (ctypes.c_uint32 * 6)())
        self.prctl(SET_DUMPABLE, 1)

    def mount(self, source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
        """Mount a file system. Raises OSError."""
        words = [os.fsencode(each) if each else None for each in (source, target, kind)]
        data = options.encode() or None
        if self._libc.mount(*words, ctypes.c_ulong(flags), data):
            raise OSError(ctypes.get_errno(), f"cannot mount on {target}")

    def unmount(self, target: str) -> None:
        """Detach the last mount on a path, even if it is in use."""
        self._libc.umount2(os.fsencode(target), DETACH)

    def set_read_only(self, path: str, *, on: bool, below: bool = False) -> None:
        """Set or clear the read-only flag of a mount. Raises OSError."""
        asked = (ctypes.c_uint64 * 4)(READ_ONLY if on else 0, 0 if on else READ_ONLY, 0, 0)
        flags = RECURSIVE if below else 0
        words = (ctypes.c_long(-100), os.fsencode(path), ctypes.c_uint(flags), asked, ctypes.c_size_t(32))
        if self._libc.syscall(ctypes.c_long(MOUNT_SETATTR), *words):
            raise OSError(ctypes.get_errno(), f"cannot make {path} read-only")


class Mounts:
    """The mounts of one process."""

    def __init__(self, kernel: Kernel, wanted: "dict[str, Any]") -> None:
        self._kernel = kernel
        self._wanted_hidden = bool(wanted["hidden"])
        self._hidden = [path for path in map(os.path.realpath, wanted["hidden"]) if os.path.lexists(path)]
        self._writable = None if wanted["writable"] is None else list(map(os.path.realpath, wanted["writable"]))
        self._kept = [os.path.realpath(path) for path in wanted["kept"] if os.path.isdir(path)]
        self._shown = [(str(source), str(target)) for source, target in wanted.get("shown", ())]
        self._temporary = wanted["temporary"]
        self._covered: list[str] = []

    def make(self) -> list[str]:
        """Create the mounts that are possible. Return the names of the effective restrictions."""
        had = []
        self._kernel.mount("", "/", flags=REC | PRIVATE)
        kept = [
            (path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in sorted({*self._kept, *(self._writable or ())})
        ]
        sources = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in self._outside()}
        try:
            if self._temporary and self._cover_temporary(kept):
                had.append("temporary")
            if self._wanted_hidden and all([self._hide(path, kept) for path in self._hidden]):
                had.append("hidden")
            if self._shown and self._show(sources):
                had.append("shown")
        finally:
            for handle in (*(handle for _, handle in kept), *sources.values()):
                os.close(handle)
        if self._writable is not None and self._make_read_only():
            had.append("writes")
        return had

    def _outside(self) -> list[str]:
        """Return the sources that may be covered soon. The others are shown with what is mounted in them."""
        own = tuple(f"{path}/" for path in self._writable or ())
        return [path for path, _ in self._shown if not os.path.realpath(path).startswith(own) and os.path.isdir(path)]

    def _show(self, sources: "dict[str, int]") -> bool:
        """Show each folder at its other path. A link there gives way. Return False, with nothing shown, on failure."""
        done: list[tuple[str, str]] = []
        try:
            for source, target in self._shown:
                link = os.readlink(target) if os.path.islink(target) else ""
                if link:
                    os.unlink(target)
                done.append((target, link))
                os.makedirs(target, exist_ok=True)
                if source in sources:
                    self._bind(sources[source], target)
                else:
                    self._kernel.mount(source, target, flags=BIND | REC)
        except OSError:
            for target, link in reversed(done):
                self._kernel.unmount(target)
                if link:
                    os.rmdir(target)
                    os.symlink(link, target)
            return False
        return True

    def _cover_temporary(self, kept: list[tuple[str, int]]) -> bool:
        """Replace the world-writable folders by private ones. Return True if all of them are covered."""
        handle = os.open(self._temporary, os.O_PATH | os.O_CLOEXEC)
        try:
            done = [
                self._cover(path, kept, lambda path: self._bind(handle, path))
                for path in {os.path.realpath("/tmp"), os.path.realpath("/var/tmp")}
            ]
        finally:
            os.close(handle)
        if os.path.isdir("/dev/shm"):
            done.append(self._cover("/dev/shm", [], self._shared_memory))
        return all(done)

    def _hide(self, path: str, kept: list[tuple[str, int]]) -> bool:
        return not os.path.lexists(path) or self._cover(path, kept, self._empty)

    def _cover(self, path: str, kept: list[tuple[str, int]], lay: "Any") -> bool:
        """Cover a path and show its kept folders again. Return False, with nothing covered, if any step fails."""
        try:
            lay(path)
        except OSError:
            return False
        try:
            for each, handle in kept:
                if each.startswith(path + "/"):
                    os.makedirs(each, exist_ok=True)
                    self._bind(handle, each)
        except OSError:
            self._kernel.unmount(path)
            return False
        self._covered.append(path)
        return True

    def _empty(self, path: str) -> None:
        if os.path.isdir(path):
            self._kernel.mount("fleet", path, "tmpfs", NOSUID | NODEV, "size=1m,mode=0700")
        else:
            self._kernel.mount("/dev/null", path, flags=BIND)

    def _shared_memory(self, path: str) -> None:
        self._kernel.mount("fleet", path, "tmpfs", NOSUID | NODEV, SHARED_MEMORY)

    def _bind(self, handle: int, path: str) -> None:
        self._kernel.mount(f"/proc/self/fd/{handle}", path, flags=BIND | REC)

    def _make_read_only(self) -> bool:
        """Make everything read-only except the writable folders, the private covers and /proc.

        Return False on failure.
        """
        own = [path for path in self._covered if path not in self._hidden]
        writable = [*(self._writable or ()), *own]
        try:
            for path in self._writable or ():
                self._kernel.mount(path, path, flags=BIND | REC)
            self._kernel.set_read_only("/", on=True, below=True)
        except OSError:
            return False
        for path in (*writable, "/proc"):
            try:
                self._kernel.set_read_only(path, on=False)
            except OSError:
                if path != "/proc":
                    self._kernel.set_read_only("/", on=False, below=True)
                    return False
        return True
