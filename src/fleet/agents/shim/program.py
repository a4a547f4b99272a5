"""The shim's program: read the spec, start the agent, detach from the launcher, serve until the end."""

# contextlib would cost as much start time as the rest.
# ruff: noqa: SIM105

import _signal  # type: ignore[import-not-found]  # see process.py
import os
import sys

from fleet.agents.shim.jsonlines import decode, encode
from fleet.agents.shim.lifetime import Shim
from fleet.agents.shim.process import Pipes
from fleet.agents.shim.record import reserve_record
from fleet.agents.shim.tree import Namespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from fleet.agents.shim.sandbox import Sandbox
    from fleet.agents.shim.tree import ProcessTree


def main() -> None:
    """Manage the folder named on the command line, as the first process of a PID namespace."""
    run(lambda _: Namespace())


def run(
    make_tree: "Callable[[str], ProcessTree]", go_apart: "Callable[[dict[str, Any]], Sandbox] | None" = None
) -> None:
    """Run `… <folder> <lock>`.

    The lock is a descriptor that the launcher already holds, so no other shim can intervene.
    """
    keep(sys.argv[-2], int(sys.argv[-1]), make_tree, go_apart)


def keep(
    folder: str,
    lock: int,
    make_tree: "Callable[[str], ProcessTree]",
    go_apart: "Callable[[dict[str, Any]], Sandbox] | None" = None,
) -> "NoReturn":
    """Manage this folder, whose lock we hold, until its agent has ended."""
    os.set_inheritable(lock, False)
    umask = settle(folder)
    try:
        spec = read_spec()
        drop_spec()
        reserve_record()
        apart = go_apart(spec["apart"]) if go_apart else None
        shim = Shim(spec, make_tree(spec["env"].get("FLEET_RUN_ID", "")), umask, Pipes(spec), apart)
        _detach()
        shim.serve()
    except Exception as error:
        confess(error)
        raise
    os._exit(0)  # skips Python's cleanup, which is not needed


def settle(folder: str) -> int:
    """Enter the folder with private file modes and ignore terminal signals. Return the umask for the agent."""
    for number in (_signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM, _signal.SIGQUIT):
        _signal.signal(number, _signal.SIG_IGN)  # the agent must survive the end of a terminal or of the supervisor
    umask = os.umask(0o077)
    os.chdir(folder)
    return umask


def read_spec() -> "dict[str, Any]":
    handle = os.open("spec.json", os.O_RDONLY | os.O_CLOEXEC)
    data = bytearray()
    while chunk := os.read(handle, 1024 * 1024):
        data += chunk
    os.close(handle)
    return decode(bytes(data))


def drop_spec() -> None:
    """Remove the spec. It is used only once, and its environment may hold secrets."""
    os.unlink("spec.json")  # noqa: PTH108


def _detach() -> None:
    """Report to the launcher on stdout that the agent runs, then detach from stdin, stdout and stderr."""
    try:
        os.write(1, b"ready\n")
    except OSError:
        pass  # the launcher was killed; its successor finds us by the lock
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    os.close(nothing)


def confess(error: Exception) -> None:
    """Record in a file why the shim itself failed."""
    try:
        handle = os.open("shim.error", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        os.write(handle, encode({"error": f"{type(error).__name__}: {error}"}).encode())
    except OSError:
        pass
