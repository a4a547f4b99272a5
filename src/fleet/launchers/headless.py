"""The launcher of agents without a terminal: each is the child of a shim that nobody's end takes along.

The shim is started detached: its own session, no descriptors but the lock, no parent but init, so a started agent and
one found again are reached in the same way. Where the system allows it the shim is the first of a PID namespace.
A launcher that lasts has its shims forked by a starter; where that fails, each is started alone.
"""

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
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.core.record import Record
from fleet.files import lock_within
from fleet.launchers.base import Launcher, LaunchSpec, take_back
from fleet.launchers.detached import shim_command, start_detached
from fleet.launchers.shim_client import ShimAgent
from fleet.launchers.starter import NotStarted, Starter

NAMESPACE, WEAK = "pid namespace", "weak"
#: An agent must be running within this time, on however busy a machine.
START_SECONDS = 60.0
#: As long as a shim may need to open its socket, or to go after having closed it.
FIND_SECONDS = 30.0

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from typing import Protocol

    class Spawn(Protocol):
        """Starts the shim of a folder that is prepared."""

        def __call__(self, folder: str, lock: int, saying: int, *, apart: bool) -> None: ...


class HeadlessLauncher(Launcher):
    """Starts agents whose output goes to files."""

    def __init__(self, containment: str | None = None, *, lasting: bool = False) -> None:
        self.containment = choose(containment)
        self._starter = Starter(self._space()) if lasting and sys.platform == "linux" else None

    async def start(self, folder: str, spec: LaunchSpec) -> ShimAgent:
        """Start an agent in a run's folder; what an earlier one left there is written over. FleetError: none runs."""
        # What can be refused is asked for before there is an agent that nobody could reach.
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
        """The agent that lives in this folder; none when its shim's lock is free. FleetError: no answer."""
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
        """Whether there ever was an agent in this folder: its shim makes the file of its output first."""
        return Path(folder, "stdout").exists()

    async def _handed_over(self, folder: str, spec: LaunchSpec) -> bool:
        """Have the starter begin it; False when nothing was begun, so that it can be done in another way."""
        starter = self._starter
        if starter is None or not starter.works:
            return False
        try:
            await self._begin(folder, spec, starter.hand_over)
        except NotStarted as error:
            log.warning("%s; it is started without the starter", error)
            starter.failures += 1
            return False
        starter.successes += 1
        return True

    async def _begin(self, folder: str, spec: LaunchSpec, spawn: "Spawn") -> None:
        """Have it started. NotStarted: no shim takes it any more. FleetError: one did, and was ended."""
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
        """What the starter has to do for a PID namespace."""
        if self.containment == WEAK:
            return ""
        return "user" if "--user" in (namespace_command() or ()) else "plain"

    def _command(self, folder: str, lock: int, *, apart: bool) -> list[str]:
        module, inside = ("weak", ()) if self.containment == WEAK else ("program", namespace_command() or ())
        return [*inside, *shim_command("apart_program" if apart else module, folder, str(lock))]


def _prepared(folder: str, spec: LaunchSpec, saying: int, spawn: "Spawn") -> None:
    """Take the lock, write down what to start, and have it started. Closes `saying`."""
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
    """How well trees are held: what was asked for, else the best there is."""
    if containment == NAMESPACE and namespace_command() is None:
        raise FleetError("PID namespaces are not available here", hint="leave the containment to fleet.")
    return containment or (WEAK if namespace_command() is None else NAMESPACE)


@functools.cache
def namespace_command() -> tuple[str, ...] | None:
    """The command that makes what follows the first process of a PID namespace; none where that cannot be had."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return None
    # Mapping to root instead of the current user makes the real claude print nothing.
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
    """The folder's lock, held. The shim inherits it, so that it is never free while something lives."""
    handle = os.open(f"{folder}/{name}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if lock_within(handle, 0.2):
        return handle
    os.close(handle)
    raise FleetError(f"an agent {'lives' if name == 'lock' else 'is being started'} in {folder}")


def prepare(folder: str, spec: LaunchSpec, **more: str) -> None:
    """Take away what an earlier agent left, and write down what to start."""
    for name in ("exit.json", "shim.error", "spec.json", "stdout.tail", "stderr.tail"):
        Path(folder, name).unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(f"{folder}/spec.json", flags, 0o600), "wb") as file:
        file.write(json.dumps(spec.as_dict() | more, default=Record.as_dict).encode())


async def _ready(said: int, folder: str) -> None:
    """Wait until the shim says that it runs; FleetError with its words when it says anything else."""
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
                        raise NotStarted(f"the shim in {folder} did not start: {''.join(reason) or 'no reason given'}")
    except TimeoutError:
        raise NotStarted(f"the shim in {folder} did not start in {START_SECONDS:g} s") from None
    finally:
        loop.remove_reader(said)


def hint_for(error: OSError) -> str:
    """What helps against a machine that is full."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "raise the limit of open files (`ulimit -n`), or run fewer agents at once."
    return {errno.ENOSPC: "free some disk space.", errno.EAGAIN: "too many processes; run fewer agents."}.get(
        error.errno or 0, ""
    )
