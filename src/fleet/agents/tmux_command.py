"""tmux as a command: session names and requests to its server, one call each.

Targets are exact (`=name`) because tmux otherwise matches prefixes of names. The server gets an environment without
secrets: it outlives the process that starts it, and shows its environment to every pane.
"""

import os
import re
import secrets
import shutil
import subprocess
from typing import NamedTuple

from fleet.core.errors import FleetError

#: A server answers in milliseconds, but a machine may be very busy.
ANSWER_SECONDS = 15.0
#: Maximum bytes that are read of a screen with its history.
MOST_TEXT = 8 * 1024 * 1024

#: Text that tmux itself writes into a pane whose command has ended.
_DEAD = re.compile(r"\n*(?:^|\n)Pane is dead(?: \([^\n]*\))?\Z")
# Either sequence would end a paste, and the rest would count as typed keys.
_PASTE_ENDS = ("\x1b[201~", "\x9b201~")
_KEPT = ("PATH", "HOME", "TERM", "LANG", "TMUX_TMPDIR")
_SESSIONS = "#{pane_id} #{session_created} #{session_attached} #{pane_dead} #{pane_pid} #{session_name}"


class SessionFacts(NamedTuple):
    """A session's facts from tmux. The agent has the first pane; a user may have opened more."""

    created: int  # seconds since 1970
    attached: int  # number of attached clients
    dead: bool  # the command in its pane has ended
    pane_pid: int


class Pane:
    """The screen and keyboard of an agent, for commands. The supervisor uses `TerminalAgent`."""

    def __init__(self, socket: str, target: str) -> None:
        self._socket, self._target = socket, target

    def screen(self) -> str:
        """Return the visible text. Raises FleetError if the terminal is gone."""
        return text_of(self._call("read", *capture_words(self._target, 0)))

    def press(self, key: str) -> None:
        """Press a key, by its tmux name. Raises FleetError."""
        self._call("type into", *press_words(self._target, key))

    def paste(self, text: str) -> None:
        """Paste a text unchanged and without Enter. Raises FleetError."""
        self._call("type into", *paste_words(self._target), stdin=pasteable(text))

    def _call(self, doing: str, *words: str, stdin: bytes = b"") -> bytes:
        done = call(self._socket, *words, stdin=stdin)
        if done.returncode:
            raise FleetError(f"cannot {doing} the terminal: {reason(done)}")
        return done.stdout


def find_pane(socket: str, name: str) -> Pane | None:
    """Return the pane of a session's agent: the oldest, because a user may have opened more. None if it has ended."""
    if not has_tmux():
        return None
    told = call(socket, "list-panes", "-s", "-t", f"={name}", "-F", "#{pane_id} #{pane_dead}").stdout.decode()
    panes = sorted((int(pane[1:]), dead) for pane, _, dead in (line.partition(" ") for line in told.splitlines()))
    return Pane(socket, f"={name}:.%{panes[0][0]}") if panes and panes[0][1] == "0" else None


def press_words(target: str, *keys: str) -> tuple[str, ...]:
    """Return the tmux command that presses keys in a pane."""
    return ("send-keys", "-t", target, "--", *keys)


def paste_words(target: str) -> tuple[str, ...]:
    """Return the tmux commands that paste their input into a pane, in one piece if its program supports that."""
    name = f"fleet-{secrets.token_hex(8)}"
    return ("load-buffer", "-b", name, "-", ";", "paste-buffer", "-p", "-r", "-d", "-b", name, "-t", target)


def pasteable(text: str) -> bytes:
    """Return the text without sequences that would end the paste early."""
    while any(end in text for end in _PASTE_ENDS):
        for end in _PASTE_ENDS:
            text = text.replace(end, "")
    return text.encode("utf-8", "surrogateescape")


def has_tmux() -> bool:
    return shutil.which("tmux") is not None


def version() -> str:
    """Return tmux's version. Empty if tmux is not installed. Raises FleetError if it does not answer."""
    if not has_tmux():
        return ""
    try:
        done = subprocess.run(["tmux", "-V"], capture_output=True, timeout=ANSWER_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FleetError(f"tmux does not answer: {error}", hint="run `tmux -V` to check the program") from error
    return done.stdout.decode(errors="replace").strip()


def tmux_argv(socket: str, *words: str, config: str | None = None) -> list[str]:
    """Return the command line of a tmux call.

    A word's final `;` is escaped because it would end the tmux command. A word that is only `;` separates commands.
    """
    plain = [f"{word[:-1]}\\;" if word.endswith(";") and word != ";" else word for word in words]
    return ["tmux", "-u", "-L", socket, "-f", config or os.devnull, *plain]


def tmux_environment() -> dict[str, str]:
    """Return the part of our environment that a server may see."""
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith("LC_")}
    return {"TERM": "screen-256color"} | kept


def call(
    socket: str, *words: str, stdin: bytes = b"", config: str | None = None
) -> "subprocess.CompletedProcess[bytes]":
    """Call tmux and return its result, even a failure. Raises FleetError if tmux is missing or does not answer."""
    argv = tmux_argv(socket, *words, config=config)
    try:
        return subprocess.run(
            argv, input=stdin, capture_output=True, env=tmux_environment(), timeout=ANSWER_SECONDS, check=False
        )
    except FileNotFoundError:
        raise FleetError("tmux is not installed", hint="install tmux, or run the agent headless") from None
    except subprocess.TimeoutExpired:
        raise FleetError(
            f"the tmux server {socket} does not answer", hint=f"run `tmux -L {socket} ls` to check the server"
        ) from None


def reason(done: "subprocess.CompletedProcess[bytes]") -> str:
    return done.stderr.decode(errors="replace").strip()[:500] or f"exit code {done.returncode}"


def sessions(socket: str) -> dict[str, SessionFacts]:
    """Return every session by its name. Empty if no server runs."""
    if not has_tmux():
        return {}
    return read_sessions(call(socket, "list-panes", "-a", "-F", _SESSIONS).stdout.decode(errors="replace"))


def read_sessions(text: str) -> dict[str, SessionFacts]:
    """Return the sessions in tmux's list of panes. The oldest pane represents its session."""
    found: dict[str, tuple[int, SessionFacts]] = {}
    for line in text.splitlines():
        fields = line.split(" ", 5)
        if len(fields) < 6 or not all(field.isdigit() for field in (fields[0][1:], *fields[1:5])):
            continue
        pane, created, attached, dead, pid = int(fields[0][1:]), *map(int, fields[1:5])
        if fields[5] not in found or pane < found[fields[5]][0]:
            found[fields[5]] = pane, SessionFacts(created, attached, bool(dead), pid)
    return {name: facts for name, (_, facts) in found.items()}


def attach_argv(socket: str, name: str) -> list[str]:
    """Return the command that attaches to a session. tmux refuses to run it in a pane of the same server."""
    return tmux_argv(socket, "attach-session", "-t", f"={name}")


def kill_session(socket: str, name: str) -> None:
    """End a session and what runs in it. Do nothing if it does not exist."""
    if has_tmux():
        call(socket, "kill-session", "-t", f"={name}")


def capture(socket: str, name: str, lines: int = 0) -> str:
    """Return a session's screen with `lines` lines of its history. Empty if it does not exist."""
    return text_of(call(socket, *capture_words(f"={name}:", lines)).stdout) if has_tmux() else ""


def capture_words(target: str, lines: int) -> tuple[str, ...]:
    """Return the tmux command that captures a pane. Wrapped lines are joined."""
    return ("capture-pane", "-p", "-J", "-S", str(-max(0, lines)), "-t", target)


def text_of(data: bytes) -> str:
    """Return a captured screen as text: its newest part, without trailing blanks and tmux's message about the end."""
    text = data[-MOST_TEXT:].decode("utf-8", "replace")
    text = "\n".join(line.rstrip() for line in text.split("\n")).rstrip("\n")
    return _DEAD.sub("", text).rstrip("\n")
