"""The launcher of agents in terminals: each has a tmux session whose only command is its shim.

The tmux server starts the shim, so the shim can inherit neither the lock nor a pipe. The spec serves as the token
instead. The shim takes the lock, then the spec. A process that finds the lock free removes the spec, so a late shim
finds nothing to start.
"""

import asyncio
import os
import re
import secrets
import shutil
import socket as sockets
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from fleet.agents.base import Launcher, LaunchSpec
from fleet.agents.detached import ROOT
from fleet.agents.headless import (
    FIND_SECONDS,
    NAMESPACE,
    START_SECONDS,
    WEAK,
    choose,
    hint_for,
    namespace_command,
    prepare,
    take_lock,
)
from fleet.agents.lock import is_locked
from fleet.agents.shim_client import ShimAgent
from fleet.agents.shim_link import ShimConnection, connect, read_exit
from fleet.agents.tmux_command import (
    call,
    capture,
    capture_words,
    kill_session,
    paste_words,
    pasteable,
    press_words,
    reason,
    sessions,
    text_of,
)
from fleet.core.branch import session_name
from fleet.core.errors import FleetError

#: How often the log is checked for growth, because nothing reports it.
LOOK_SECONDS = 0.5
#: The session option that stores the mark of a paste.
MARK = "@fleet_pasted"


class TerminalAgent(ShimAgent):
    """A live agent in a tmux session."""

    def __init__(self, folder: str, link: ShimConnection | None, socket: str, session: str, pane: str) -> None:
        super().__init__(folder, link)
        self.session = session
        self._socket = socket
        # The pane together with its session, because a later server reuses the pane numbers.
        self._target = f"={session}:.{pane}" if pane else f"={session}:"
        self._looking = asyncio.create_task(self._look(), name=f"terminal in {folder}")

    async def screen(self, lines: int = 0) -> str:
        """Return the terminal's content with `lines` lines of its history.

        Raises FleetError if the terminal is gone.
        """
        return text_of(await self._tmux("read", *capture_words(self._target, lines)))

    async def paste(self, text: str, mark: str = "") -> None:
        """Paste a text unchanged and without Enter, in one piece if the agent supports that.

        Raises FleetError if it fails.
        The server stores the mark if and only if it pasted the text, even if this process dies meanwhile.
        """
        marked = (";", "set-option", "-t", f"={self.session}:", MARK, mark) if mark else ()
        await self._tmux("type into", *paste_words(self._target), *marked, stdin=pasteable(text))

    async def last_mark(self) -> str:
        """Return the mark of the last marked paste. Raises FleetError if the terminal is gone."""
        shown = await self._tmux("read", "show-options", "-q", "-v", "-t", f"={self.session}:", MARK)
        return shown.decode(errors="replace").strip()

    async def press(self, *keys: str) -> None:
        """Press keys by their tmux names (`Enter`, `C-c`, `Escape`, `a`). Use `paste` for text."""
        await self._tmux("type into", *press_words(self._target, *keys))

    async def close_session(self) -> None:
        """End the session and what runs in it. Do nothing if it is gone."""
        await asyncio.to_thread(kill_session, self._socket, self.session)

    def close(self) -> None:
        """Disconnect. The agent keeps running."""
        self._looking.cancel()
        super().close()

    async def _tmux(self, doing: str, *words: str, stdin: bytes = b"") -> bytes:
        done = await asyncio.to_thread(call, self._socket, *words, stdin=stdin)
        if done.returncode:
            raise FleetError(f"cannot {doing} the session {self.session}: {reason(done)}")
        return done.stdout

    async def _look(self) -> None:
        seen = self._size()
        while not self._listening.done():
            await asyncio.wait((self._listening,), timeout=LOOK_SECONDS)
            if seen != (seen := self._size()):
                self.activity.set()

    def _size(self) -> int:
        try:
            return os.stat(f"{self._folder}/stdout").st_size  # noqa: PTH116 - called twice a second for each agent
        except OSError:
            return 0


#: How long a session of the same name may take to disappear after its agent has ended.
GOING_SECONDS = 2.0
# Messages of a tmux server that is just ending because its last session ended. The last one: the session to replace is
# already gone.
_ENDING = (b"server exited", b"lost server", b"no server running", b"error connecting", b"can't find session")
HISTORY = "50000"
_PROGRAM = "import sys; sys.path.append(sys.argv[1]); from fleet.agents.shim.terminal import main; "
_WEAK_PROGRAM = "from fleet.agents.shim.weak import held; main(held)"
_APART_PROGRAM = "from fleet.agents.shim.sandboxed import Sandbox, make_tree; main(make_tree, Sandbox)"
# The process outside the namespace holds the lock too. So the lock is free only after the last process inside has
# ended.
_LOCKED = (
    'exec 9>>"$1/lock" && flock -w 1 9 || { echo "an agent is alive in this folder" >&2; exit 75; }; shift; exec "$@"'
)
# A file cannot exceed the cap because the log's writer ends there. The unit is 512 bytes.
_LOG = "umask 077; ulimit -f {}; exec cat >> {}"


class TmuxLauncher(Launcher):
    """Launcher of agents that have a terminal."""

    def __init__(
        self,
        socket: str = "fleet",
        config: str | None = None,
        containment: str | None = None,
    ) -> None:
        self.socket = socket
        self._config = config
        self.containment = choose(containment)
        if self.containment == NAMESPACE and shutil.which("flock") is None:
            self.containment = WEAK

    async def start(self, folder: str, spec: LaunchSpec) -> TerminalAgent:
        """Start an agent in its own session.

        Files of an earlier agent are overwritten. Raises FleetError if none runs.
        """
        if spec.stdin:
            raise FleetError("an agent in a terminal has no stdin", hint="type the text in its terminal")
        if not spec.session or session_name("", spec.session) != spec.session:
            raise FleetError(f"tmux cannot have a session named {spec.session!r}", hint="use letters, digits, - and _")
        # The start always runs to its end, even after a cancellation. A half-started agent would look like none.
        task = asyncio.create_task(self._start(folder, spec))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_let_go)
            raise

    async def find(self, folder: str) -> TerminalAgent | None:
        """Return the live agent of this folder.

        Return None if its shim's lock is free; then no late shim can start either.
        Raises FleetError if the shim does not answer.
        """
        give_up = time.monotonic() + FIND_SECONDS
        while True:
            if not is_locked(folder) and not is_locked(folder, "starting"):
                _give_up_start(folder)
                if not is_locked(folder):
                    return None
            link = await _link(folder)
            if link:
                return self._agent(folder, link)
            if time.monotonic() > give_up:
                raise FleetError(f"the shim in {folder} holds its lock but does not answer")
            await asyncio.sleep(0.02)

    def was_started(self, folder: str) -> bool:
        """Return True if an agent was ever started in this folder. Its shim records that before the start."""
        return Path(folder, "started").exists()

    async def _start(self, folder: str, spec: LaunchSpec) -> TerminalAgent:
        is_ours = False  # True once the folder's lock is ours
        try:
            folder, starting = await asyncio.to_thread(_claim, folder)
            try:
                lock = await asyncio.to_thread(_lock_of, folder)
                is_ours = True
                await asyncio.to_thread(self._spawn, folder, lock, spec)
                return await self._ready(folder, spec.session)
            finally:
                _give_up_start(folder)  # unless the shim has taken it
                os.close(starting)
        except (FleetError, OSError) as error:
            if is_ours:
                await self.end(folder)
            if isinstance(error, FleetError):
                raise
            raise FleetError(f"cannot start an agent in {folder}: {error.strerror}", hint=hint_for(error)) from error

    def _spawn(self, folder: str, lock: int, spec: LaunchSpec) -> None:
        """Create the session, its shim and its log in one tmux call. Closes `lock`, which is the folder's lock."""
        token = secrets.token_hex(8)
        try:
            prepare(folder, spec, token=token)
            for name in ("started", "control", "stdout"):
                Path(folder, name).unlink(missing_ok=True)
            os.close(os.open(f"{folder}/stdout", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        finally:
            os.close(lock)
        self._open(folder, spec.session, self._words(folder, spec, token))

    def _open(self, folder: str, session: str, words: list[str]) -> None:
        """Create the session.

        A session of the same name is replaced if its command has ended. If the server is just ending, wait and retry.
        Raises FleetError.
        """
        give_up = time.monotonic() + GOING_SECONDS
        instead: list[str] = []
        while (done := call(self.socket, *instead, *words, config=self._config)).returncode:
            late = time.monotonic() > give_up
            if b"duplicate session" in done.stderr:
                facts = sessions(self.socket).get(session)
                if facts and facts.dead:
                    # In the same call, because a server without sessions ends.
                    instead = ["kill-session", "-t", f"={session}", ";"]
                elif late:
                    raise FleetError(
                        f"tmux session {session} already exists, and a program runs in it",
                        hint=f"run `tmux -L {self.socket} attach -t ={session}` to see it",
                    )
            else:
                instead = []
                if late or not any(words in done.stderr for words in _ENDING):
                    raise FleetError(f"tmux cannot start a session for {folder}: {reason(done)}")
            time.sleep(0.05)

    def _words(self, folder: str, spec: LaunchSpec, token: str) -> list[str]:
        """Return the whole start as one line of tmux commands."""
        shape = Shape(*spec.size, spec.stdout_cap)
        command = shim_of(folder, token, self.containment, apart=spec.apart is not None)
        log = log_command(folder, shape.log_cap)
        return new_session(spec.session, shape, command, log, taste=not self._config)

    async def _ready(self, folder: str, session: str) -> TerminalAgent:
        """Wait until the shim sends its greeting or has written its exit record.

        Raises FleetError if it does neither.
        """
        begin = time.monotonic()
        look_at = begin + 0.5
        while not (link := await _link(folder)) and not read_exit(folder):
            now = time.monotonic()
            if now > look_at:
                look_at = now + 0.5
                facts = (await asyncio.to_thread(sessions, self.socket)).get(session)
                if (facts is None or facts.dead) and not read_exit(folder) and not is_locked(folder):
                    raise FleetError(f"the shim in {folder} did not start: {await self._last_words(session)}")
            if now - begin > START_SECONDS:
                raise FleetError(f"the shim in {folder} did not start in {START_SECONDS:g} s")
            await asyncio.sleep(0.002)
        return self._agent(folder, link, session)

    async def _last_words(self, session: str) -> str:
        """Return the output of a failed session, then close the session."""
        shown = (await asyncio.to_thread(capture, self.socket, session, 50)).splitlines()
        await asyncio.to_thread(kill_session, self.socket, session)
        return " ".join(line for line in shown if line)[-500:] or "no reason given"

    def _agent(self, folder: str, link: ShimConnection | None, session: str = "") -> TerminalAgent:
        place: dict[str, Any] = link.state if link else {}
        return TerminalAgent(folder, link, self.socket, str(place.get("session", session)), str(place.get("pane", "")))


def _give_up_start(folder: str) -> None:
    """Withdraw the spec. A shim that has not taken it by now finds nothing to start."""
    Path(folder, "spec.json").unlink(missing_ok=True)


def _let_go(task: "asyncio.Task[TerminalAgent]") -> None:
    """Disconnect from an agent whose start was cancelled. fleet finds the agent again by its folder."""
    if not task.cancelled() and task.exception() is None:
        task.result().close()


async def _link(folder: str) -> ShimConnection | None:
    try:
        return await connect(folder, sockets.socket(sockets.AF_UNIX))
    except (OSError, ValueError, LookupError):
        return None


def _lock_of(folder: str) -> int:
    """Take the folder's lock. A late shim that finds nothing to start holds it for a moment."""
    give_up = time.monotonic() + GOING_SECONDS
    while True:
        try:
            return take_lock(folder)
        except FleetError:
            if Path(folder, "started").exists() or time.monotonic() > give_up:
                raise


def _claim(folder: str) -> tuple[str, int]:
    """Return the absolute path and a lock. Until it is closed, only this process may start an agent there."""
    Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    return str(Path(folder).absolute()), take_lock(folder, "starting")


class Shape(NamedTuple):
    """Properties of a session that cannot be changed later, or not cheaply."""

    columns: int
    rows: int
    log_cap: int  # bytes


def new_session(name: str, shape: Shape, command: list[str], log: str, *, taste: bool) -> list[str]:
    """Return the tmux commands of a start. The server runs them without interruption."""
    target = f"={name}:"
    liked = (
        *("set-option", "-g", "history-limit", HISTORY, ";"),
        *("set-option", "-g", "default-terminal", "screen-256color", ";"),
        *("set-option", "-s", "escape-time", "20", ";"),
    )
    return [
        *(liked if taste else ()),
        *("new-session", "-d", "-s", name, "-x", str(shape.columns), "-y", str(shape.rows), "-c", "/"),
        *(*command, ";"),
        *("set-option", "-w", "-t", target, "remain-on-exit", "on", ";"),
        *("pipe-pane", "-O", "-t", target, log),
    ]


def log_command(folder: str, cap: int) -> str:
    """Return the shell command that writes a pane's log to `stdout` in a folder."""
    return _LOG.format(max(1, cap // 512), quoted(f"{folder}/stdout"))


def shim_of(folder: str, token: str, containment: str, *, apart: bool) -> list[str]:
    """Return the command of a pane: the shim of a folder."""
    weak = containment == WEAK
    program = _PROGRAM + (_APART_PROGRAM if apart else _WEAK_PROGRAM if weak else "main()")
    python = [sys.executable, "-I", "-S", "-c", program, ROOT, folder]
    return [*python, "-", token] if weak else _locked(folder, [*python, "9", token])


def _locked(folder: str, python: list[str]) -> list[str]:
    return ["/bin/sh", "-c", _LOCKED, "fleet-shim", folder, *(namespace_command() or ()), *python]


def quoted(path: str) -> str:
    """Quote a path for a shell inside a tmux format: every special character becomes an octal escape."""
    plain = re.sub(rb"[^A-Za-z0-9/_.-]", lambda found: b"\\%03o" % found[0][0], os.fsencode(path))
    return f"\"$(printf '{plain.decode()}')\""
