"""A network with nothing but its own loopback: programs inside reach only the model server.

A child process in a separate network namespace holds the network open. The child opens the server's socket there and
passes it out, so that the server stays in the process of the tests. This needs Linux, and root or the right to create
user namespaces.
"""

import fcntl
import os
import socket
import struct
import subprocess
import sys
from typing import Self

# From the kernel's headers: the request that sets the flags of an interface, and the flag for "up".
SIOCSIFFLAGS, IFF_UP = 0x8914, 1


class NoNetwork(OSError):
    """An error: this machine does not allow a network namespace."""


class ClosedNetwork:
    """A network namespace with only `lo`, as a context manager."""

    def __init__(self) -> None:
        """Create the namespace. Raises NoNetwork."""
        ours, theirs = socket.socketpair()
        # A user other than root may do this in their own user namespace.
        self._options = [] if os.geteuid() == 0 else ["--user"]
        mapped = [] if os.geteuid() == 0 else ["--map-current-user", "--keep-caps"]
        argv = ["unshare", *self._options, *mapped, "--net", sys.executable, "-P", __file__, str(theirs.fileno())]
        with ours, theirs:
            try:
                self._holder = subprocess.Popen(
                    argv, pass_fds=[theirs.fileno()], stdin=subprocess.PIPE, stderr=subprocess.PIPE
                )
            except OSError as error:
                raise NoNetwork(str(error)) from None
            theirs.close()
            _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
        if not descriptors:
            _, complaint = self._holder.communicate()
            raise NoNetwork(complaint.decode(errors="replace").strip())
        self.listener = socket.socket(fileno=descriptors[0])

    def enter(self, *argv: str) -> list[str]:
        """Return the command that runs another one inside. It becomes the other command, with the same process id."""
        user = ["--user", "--preserve-credentials"] if self._options else []
        return ["nsenter", f"--target={self._holder.pid}", *user, "--net", "--", *argv]

    def close(self) -> None:
        """Release the namespace. It ends with the last process inside."""
        self.listener.close()
        self._holder.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def hold(channel: int) -> None:
    """Run in the namespace: bring loopback up, open a socket, pass it out, and wait until it is no longer needed."""
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
    with socket.socket(fileno=channel) as way_out, socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        socket.send_fds(way_out, [b"."], [listener.fileno()])
    sys.stdin.read()


if __name__ == "__main__":
    hold(int(sys.argv[1]))
