"""How a session is made: its pane's command is a shim, its log goes to a file. One call of tmux."""

import os
import re
import sys
from typing import NamedTuple

from fleet.launchers.detached import ROOT
from fleet.launchers.headless import WEAK, namespace_command

HISTORY = "50000"

_PROGRAM = "import sys; sys.path.append(sys.argv[1]); from fleet.launchers.shim.terminal import main; "
_WEAK_PROGRAM = "from fleet.launchers.shim.weak import held; main(held)"
_APART_PROGRAM = "from fleet.launchers.shim.apart_program import Apart, make_tree; main(make_tree, Apart)"
# The step before the namespace holds the lock too, so that it is free only when the last process in there is gone.
_LOCKED = (
    'exec 9>>"$1/lock" && flock -w 1 9 || { echo "an agent lives in this folder" >&2; exit 75; }; shift; exec "$@"'
)
# A file cannot grow beyond the cap: the log's writer ends there. In blocks of 512 bytes.
_LOG = "umask 077; ulimit -f {}; exec cat >> {}"


class Shape(NamedTuple):
    """What of a session cannot be changed later, or not for nothing."""

    columns: int
    rows: int
    log_cap: int  # bytes


def new_session(name: str, shape: Shape, command: list[str], log: str, *, taste: bool) -> list[str]:
    """The words for tmux, which its server does without a pause between them."""
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
    """The command of a pane: the shim of a folder."""
    weak = containment == WEAK
    program = _PROGRAM + (_APART_PROGRAM if apart else _WEAK_PROGRAM if weak else "main()")
    python = [sys.executable, "-I", "-S", "-c", program, ROOT, folder]
    return [*python, "-", token] if weak else _locked(folder, [*python, "9", token])


def _locked(folder: str, python: list[str]) -> list[str]:
    return ["/bin/sh", "-c", _LOCKED, "fleet-shim", folder, *(namespace_command() or ()), *python]


def quoted(path: str) -> str:
    """A path for a shell within a format of tmux: whatever means something to either is written as a number."""
    plain = re.sub(rb"[^A-Za-z0-9/_.-]", lambda found: b"\\%03o" % found[0][0], os.fsencode(path))
    return f"\"$(printf '{plain.decode()}')\""
