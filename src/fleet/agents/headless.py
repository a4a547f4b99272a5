"""The launcher of agents without a terminal. Each agent is the child of a shim that outlives the supervisor.

The shim is started detached: its own session, no descriptors but the lock, no parent but init. So fleet reaches a new
agent and a rediscovered one in the same way. If the system allows PID namespaces, the shim is the first process of one.
A long-lived launcher has its shims forked by a starter. If that fails, each shim is started separately.
"""

import array
import asyncio
import contextlib
import errno
import functools
import json
import logging
import os
import shutil
import socket
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.agents.base import Launcher, LaunchSpec, take_back
from fleet.agents.detached import shim_command, start_detached
from fleet.agents.shim.title import ROOM
from fleet.agents.shim_client import ShimAgent
from fleet.core.errors import FleetError
from fleet.core.record import Record
from fleet.files import lock_within

#: A starter accepts a request in a millisecond, but a machine may be very busy.
SEND_SECONDS = 10.0
#: After this many failed starts and no successful one, the system does not allow what the starter does.
MOST_FAILURES = 3


class NotStarted(FleetError):
    """A shim ended before it was ready, or did not become ready in time."""


class Starter:
    """Connection to the starter process, to which it passes starts. Thread-safe."""

    def __init__(self, space: str) -> None:
        self.successes = self.failures = 0
        self._space = space  # kind of PID namespace for shims: "" none, "plain", or "user" (inside a user namespace)
        self._lock = threading.Lock()
        self._link: socket.socket | None = None

    @property
    def works(self) -> bool:
        return self.successes > 0 or self.failures < MOST_FAILURES

    def hand_over(self, folder: str, lock: int, saying: int, *, apart: bool) -> None:
        """Start a shim in a prepared folder and pass it the lock.

        Raises NotStarted if the starter does not accept it.
        """
        request = json.dumps({"folder": folder, "space": self._space, "apart": apart}).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", (lock, saying)))]
        try:
            link = self._reach()
            try:
                link.sendmsg([request], rights)
            except ConnectionError:  # it died since the last request
                self._reach(instead_of=link).sendmsg([request], rights)
        except OSError as error:
            raise NotStarted(f"the starter refuses {folder}: {error}") from error

    def _reach(self, instead_of: socket.socket | None = None) -> socket.socket:
        with self._lock:
            if self._link is not None and self._link is instead_of:
                self._link.close()
                self._link = None
            if self._link is None:
                self._link = _start()
                weakref.finalize(self, self._link.close)
            return self._link


def _start() -> socket.socket:
    """Start a starter and return the connection to it. Requests wait until it has started."""
    with contextlib.ExitStack() as opened:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            opened.callback(ours.close)
            handle = theirs.fileno()
            start_detached(shim_command("starter", str(handle), ROOM), stdout=subprocess.DEVNULL, pass_fds=(handle,))
        ours.settimeout(SEND_SECONDS)
        opened.pop_all()
        return ours


NAMESPACE, WEAK = "pid namespace", "weak"
#: An agent must be running within this time, even on a very busy machine.
START_SECONDS = 60.0
#: Maximum time for a shim to open its socket, or to exit after closing it.
FIND_SECONDS = 30.0

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from typing import Protocol

    class Spawn(Protocol):
        """A function that starts the shim of a prepared folder."""

        def __call__(self, folder: str, lock: int, saying: int, *, apart: bool) -> None: ...


class HeadlessLauncher(Launcher):
    """Launcher of agents whose output goes to files."""

    def __init__(self, containment: str | None = None, *, lasting: bool = False) -> None:
        self.containment = choose(containment)
        self._starter = Starter(self._space()) if lasting and sys.platform == "linux" else None

    async def start(self, folder: str, spec: LaunchSpec) -> ShimAgent:
        """Start an agent in a run's folder.

        Files of an earlier agent are overwritten. Raises FleetError if none runs.
        """
        # Resources that the system may refuse are acquired first. An agent must not start if fleet cannot reach it.
        try:
            link = socket.socket(socket.AF_UNIX)
            try:
                if not await self._handed_over(folder, spec):
                    await self._begin(folder, spec, self._spawn)
            except BaseException:
                link.close()
                raise
        except OSError as error:
            raise FleetError(f"cannot start an agent in {folder}: {error.strerror}", hint=hint_for(error)) from error
        return await ShimAgent.reach(folder, link)

    async def find(self, folder: str) -> ShimAgent | None:
        """Return the live agent of this folder. Return None if its shim's lock is free.

        Raises FleetError if the shim does not answer.
        """
        loop = asyncio.get_running_loop()
        give_up = loop.time() + FIND_SECONDS
        while self.is_alive(folder):
            agent = await ShimAgent.reach(folder, socket.socket(socket.AF_UNIX))
            if agent.connected:
                return agent
            agent.close()
            if loop.time() > give_up:
                raise FleetError(f"the shim in {folder} holds its lock but does not answer")
            await asyncio.sleep(0.02)
        return None

    def was_started(self, folder: str) -> bool:
        """Return True if an agent was ever started in this folder. Its shim first creates the output file."""
        return Path(folder, "stdout").exists()

    async def _handed_over(self, folder: str, spec: LaunchSpec) -> bool:
        """Let the starter start the agent.

        Return False if nothing was started, so that the caller can try another way.
        """
        starter = self._starter
        if starter is None or not starter.works:
            return False
        try:
            await self._begin(folder, spec, starter.hand_over)
        except NotStarted as error:
            log.warning("%s; starting without the starter", error)
            starter.failures += 1
            return False
        starter.successes += 1
        return True

    async def _begin(self, folder: str, spec: LaunchSpec, spawn: "Spawn") -> None:
        """Start the agent and wait until it is ready.

        Raises NotStarted if no shim can take the spec any more. Raises FleetError if a shim took it and was ended.
        """
        said, saying = os.pipe()
        try:
            await asyncio.shield(asyncio.to_thread(_prepared, folder, spec, saying, spawn))
            try:
                await _ready(said, folder)
            except NotStarted as error:
                if take_back(folder):
                    raise
                await self.end(folder)
                raise FleetError(str(error)) from error
        finally:
            os.close(said)

    def _spawn(self, folder: str, lock: int, saying: int, *, apart: bool) -> None:
        start_detached(self._command(folder, lock, apart=apart), stdout=saying, pass_fds=(lock,))

    def _space(self) -> str:
        """Return the kind of PID namespace that the starter creates. Empty for none."""
        if self.containment == WEAK:
            return ""
        return "user" if "--user" in (namespace_command() or ()) else "plain"

    def _command(self, folder: str, lock: int, *, apart: bool) -> list[str]:
        module, inside = ("weak", ()) if self.containment == WEAK else ("program", namespace_command() or ())
        return [*inside, *shim_command("sandboxed" if apart else module, folder, str(lock))]


def _prepared(folder: str, spec: LaunchSpec, saying: int, spawn: "Spawn") -> None:
    """Take the lock, write the spec and start the shim. Closes `saying`."""
    lock = -1
    try:
        Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = take_lock(folder)
        try:
            prepare(folder, spec)
            spawn(str(Path(folder).absolute()), lock, saying, apart=spec.apart is not None)
        except BaseException:
            take_back(folder)
            raise
    finally:
        os.close(saying)
        if lock >= 0:
            os.close(lock)


def choose(containment: str | None) -> str:
    """Return the requested containment, else the best one available. Raises FleetError if it is unavailable."""
    if containment == NAMESPACE and namespace_command() is None:
        raise FleetError("PID namespaces are not available here", hint="set the containment to auto")
    return containment or (WEAK if namespace_command() is None else NAMESPACE)


@functools.cache
def namespace_command() -> tuple[str, ...] | None:
    """Return the command that runs a program as the first process of a PID namespace.

    Return None if no such namespace is available.
    """
    unshare = shutil.which("unshare")
    if unshare is None:
        return None
    # If mapped to root instead of the current user, the real claude prints nothing.
    as_user = ("--user", "--map-current-user")
    for user in ((), as_user) if os.geteuid() == 0 else (as_user,):
        command = (unshare, *user, "--pid", "--fork", "--mount-proc", "--")
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            trial = [*command, "/bin/sh", "-c", 'test "$$" = 1 && test -r /proc/1/stat']
            quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            if subprocess.run(trial, **quiet, timeout=10, check=False).returncode == 0:  # type: ignore[call-overload]
                return command
    return None


def take_lock(folder: str, name: str = "lock") -> int:
    """Take the folder's lock and return its descriptor. The shim inherits it, so it stays held while anything lives."""
    handle = os.open(f"{folder}/{name}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if lock_within(handle, 0.2):
        return handle
    os.close(handle)
    raise FleetError(f"an agent {'is alive' if name == 'lock' else 'is starting'} in {folder}")


def prepare(folder: str, spec: LaunchSpec, **more: str) -> None:
    """Remove the files of an earlier agent and write the spec."""
    for name in ("exit.json", "shim.error", "spec.json", "stdout.tail", "stderr.tail"):
        Path(folder, name).unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(f"{folder}/spec.json", flags, 0o600), "wb") as file:
        file.write(json.dumps(spec.as_dict() | more, default=Record.as_dict).encode())


async def _ready(said: int, folder: str) -> None:
    """Wait until the shim reports that it is ready.

    Raises NotStarted with the shim's message if it reports anything else.
    """
    loop = asyncio.get_running_loop()
    heard = asyncio.Event()
    words = b""
    os.set_blocking(said, False)
    loop.add_reader(said, heard.set)
    try:
        async with asyncio.timeout(START_SECONDS):
            while not words.endswith(b"ready\n"):
                await heard.wait()
                heard.clear()
                with contextlib.suppress(BlockingIOError):
                    chunk = os.read(said, 4096)
                    words += chunk
                    if not chunk:
                        reason = words.decode(errors="replace").strip().splitlines()[-1:]
                        raise NotStarted(f"the shim in {folder} did not start: {''.join(reason) or 'unknown reason'}")
    except TimeoutError:
        raise NotStarted(f"the shim in {folder} did not start in {START_SECONDS:g} s") from None
    finally:
        loop.remove_reader(said)


def hint_for(error: OSError) -> str:
    """Return a hint for errors of a machine that lacks resources."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "raise the limit of open files (`ulimit -n`), or run fewer agents at once"
    return {errno.ENOSPC: "free some disk space", errno.EAGAIN: "run fewer agents: there are too many processes"}.get(
        error.errno or 0, ""
    )
