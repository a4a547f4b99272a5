"""Restrictions on a process: no network, some folders hidden, writes only to its own folders.

Restrictions that the system does not support are skipped; `had` lists those that took effect. They are applied in the
agent's process before it executes the agent, in its own namespaces. The shim stays outside, where it can reach its
folder. Root keeps only the capabilities that containers usually have, because otherwise one call could undo all of
this.
"""

import fcntl
import os
import resource
import socket

from fleet.agents.shim.jsonlines import decode, encode
from fleet.agents.shim.mounts import Kernel, Mounts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NEWNS, NEWIPC, NEWUSER, NEWNET = 0x00020000, 0x08000000, 0x10000000, 0x40000000
CAPBSET_DROP, NO_NEW_PRIVS = 24, 38
#: chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service, net_raw, sys_chroot, setfcap.
KEPT_CAPABILITIES = frozenset((0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 31))
MOST_CAPABILITIES = 64
SIOCSIFFLAGS, UP_AND_RUNNING = 0x8914, 0x41


class Sandbox:
    """The restrictions of one process, and those that took effect."""

    def __init__(self, wanted: "dict[str, Any]") -> None:
        self._wanted = wanted
        self._strict = wanted["writable"] is not None
        self.most = int(wanted["processes"])
        self.had: list[str] = []
        self._told, self._tell = os.pipe()
        self._kernel = Kernel()

    def in_child(self) -> None:
        """Apply the restrictions as far as the system allows, and report which took effect."""
        had: list[str] = []
        try:
            self._leave(had)
            self._limit()
        except Exception as error:  # noqa: BLE001 - a missing restriction is reported and fails nothing
            had.append(f"fault: {error}")
        os.write(self._tell, encode({"had": had}).encode()[:60_000])

    def hear(self) -> None:
        """Read the child's report. By then the child has become the agent, or has ended."""
        os.close(self._tell)
        said = os.read(self._told, 65_536)
        os.close(self._told)
        self.had = list(map(str, decode(said)["had"])) if said else []

    def _leave(self, had: list[str]) -> None:
        spaces = [NEWNS]
        if self._strict:
            spaces.append(NEWIPC)
        if self._wanted["offline"]:
            spaces.append(NEWNET)
        for space in self._unshared(spaces):
            if space == NEWNET:
                _raise_loopback()
                had.append("offline")
            elif space == NEWIPC:
                had.append("ipc")
            else:
                had += Mounts(self._kernel, self._wanted).make()

    def _unshared(self, spaces: list[int]) -> list[int]:
        """Enter the namespaces and return those that were entered. Add a user namespace if that is needed."""
        for user in (0, NEWUSER):
            who = (os.geteuid(), os.getegid())
            if self._kernel.unshare(sum(spaces) | user):
                if user:
                    map_user(*who)
                return spaces
        return [space for space in spaces if self._kernel.unshare(space)]

    def _limit(self) -> None:
        if not self._strict:
            return
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if self.most and os.geteuid():  # the kernel counts all threads of the user here; it does not count root's
            most = self.most * 4
            _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
            if hard == resource.RLIM_INFINITY or hard > most:
                resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
        self._kernel.prctl(NO_NEW_PRIVS, 1)
        if os.geteuid() == 0:
            for capability in range(MOST_CAPABILITIES):
                if capability not in KEPT_CAPABILITIES:
                    self._kernel.prctl(CAPBSET_DROP, capability)
            self._kernel.forget_capabilities()


def map_user(user: int, group: int) -> None:
    """Map the previous user and group into a new user namespace."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        handle = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(handle, text.encode())
        finally:
            os.close(handle)


def _raise_loopback() -> None:
    """Bring up the loopback interface, because tests use their own local servers."""
    request = b"lo".ljust(16, b"\0") + UP_AND_RUNNING.to_bytes(2, "little") + bytes(22)
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        fcntl.ioctl(link, SIOCSIFFLAGS, request)
    except OSError:
        pass  # then it has no network at all
    finally:
        link.close()
