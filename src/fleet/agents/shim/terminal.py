"""The shim as the command of a terminal's pane. The agent reads from and prints to the terminal itself.

The agent is the foreground process group of the terminal, so it alone receives the keyboard input. The shim stays in
the terminal's original group. It manages the folder, answers on its socket, and ends the tree when the terminal goes
away.
"""

import _signal  # type: ignore[import-not-found]  # see process.py
import fcntl
import os
import sys
import time

from fleet.agents.shim.lifetime import Shim
from fleet.agents.shim.process import Stdin, Streams
from fleet.agents.shim.program import confess, drop_spec, read_spec, settle
from fleet.agents.shim.record import reserve_record
from fleet.agents.shim.tree import Namespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from fleet.agents.shim.loop import DescriptorLoop
    from fleet.agents.shim.sandbox import Sandbox
    from fleet.agents.shim.tree import ProcessTree

#: Variables that only the pane knows. All others come from the spec.
OF_THE_PANE = ("TERM", "TMUX", "TMUX_PANE")
#: The size belongs to the terminal, and changes.
NOT_OF_THE_SPEC = (*OF_THE_PANE, "COLUMNS", "LINES")
#: Another process may test the lock, which holds a shared lock for an instant.
LOCK_SECONDS = 1.0


class Keyboard(Stdin):
    """A stdin that cannot be written to, because users type into a terminal."""

    def __init__(self) -> None:
        self.pipe = -1
        self._closing = True

    def write(self, text: str) -> str:
        return "the agent runs in a terminal: type the text there"

    def close(self) -> str:
        return self.write("")


class ShimTerminal(Streams):
    """The terminal in which the shim was started."""

    def __init__(self, spec: "dict[str, Any]") -> None:
        self.stdin, self.outputs = Keyboard(), []
        self._session = str(spec["session"])
        self._cap = int(spec["stdout_cap"])

    @property
    def truncated(self) -> bool:
        """Return True if the terminal's log has reached its cap."""
        try:
            return os.stat("stdout").st_size >= self._cap - self._cap % 512  # noqa: PTH116 - see the log's limit
        except OSError:
            return False

    def in_child(self) -> None:
        """Become the foreground process group. It stays in the session because leaving it would lose the terminal."""
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())

    def watch(self, loop: "DescriptorLoop", hung_up: "Callable[[], None]") -> None:
        def gone() -> None:
            loop.forget(0)
            hung_up()

        loop.hangup(0, gone)

    def stopped(self, pid: int, number: int) -> None:
        """Resume an agent stopped by Ctrl-Z, because no shell here could resume it."""
        if number not in (_signal.SIGTSTP, _signal.SIGTTIN, _signal.SIGTTOU):
            return
        try:
            group = os.getpgid(pid)
            os.tcsetpgrp(0, group)
            os.killpg(group, _signal.SIGCONT)
        except OSError:
            pass  # the agent or the terminal is gone

    def place(self) -> "dict[str, str]":
        return {"session": self._session, "pane": os.environ.get("TMUX_PANE", "")}


def main(
    make_tree: "Callable[[str], ProcessTree]" = lambda _: Namespace(),
    go_apart: "Callable[[dict[str, Any]], Sandbox] | None" = None,
) -> None:
    """Run `… <folder> <lock> <token>`. The lock is a held descriptor, or `-` to take the lock here."""
    folder, lock, token = sys.argv[-3:]
    umask = settle(folder)
    ignore_keys()
    os.set_inheritable(take_lock() if lock == "-" else int(lock), False)
    keep(take_spec(token), umask, make_tree, go_apart)


def ignore_keys() -> None:
    """Ignore job control signals, because the keyboard input is for the agent."""
    for number in (_signal.SIGTSTP, _signal.SIGTTIN, _signal.SIGTTOU):
        _signal.signal(number, _signal.SIG_IGN)


def keep(
    spec: "dict[str, Any]",
    umask: int,
    make_tree: "Callable[[str], ProcessTree]",
    go_apart: "Callable[[dict[str, Any]], Sandbox] | None",
) -> "NoReturn":
    """Start the agent in the current folder, and manage it until it has ended."""
    try:
        spec["env"] = environment(spec["env"])
        reserve_record()
        apart = go_apart(spec["apart"]) if go_apart else None
        code = Shim(spec, make_tree(spec["env"].get("FLEET_RUN_ID", "")), umask, ShimTerminal(spec), apart).serve()
    except Exception as error:
        confess(error)
        raise
    os._exit(code)  # skips Python's cleanup, which is not needed


def environment(told: "dict[str, str]") -> "dict[str, str]":
    """Return the spec's environment with the variables that only the pane knows."""
    kept = {name: value for name, value in told.items() if name not in NOT_OF_THE_SPEC}
    return kept | {name: os.environ[name] for name in OF_THE_PANE if name in os.environ}


def take_lock() -> int:
    handle = os.open("lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    give_up = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > give_up:
                raise SystemExit("an agent is alive in this folder") from None
            time.sleep(0.01)
        else:
            return handle


def take_spec(token: str) -> "dict[str, Any]":
    """Take the spec and return it. Raises SystemExit if the start was withdrawn meanwhile."""
    try:
        spec = read_spec()
    except OSError:
        spec = {}
    if spec.get("token") != token:
        raise SystemExit("this start was cancelled")
    # Before the spec is removed: an agent that may have started must not look like one that did not.
    os.close(os.open("started", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    drop_spec()
    return spec
