"""Forwarding of `fleet bd` to the real bd in the home, for queues that bd stores."""

from __future__ import annotations

import os
import sys

from fleet.assembly import real_bd
from fleet.cli.bd.arguments import split_verb
from fleet.core.bd_limits import number_faults, refusal
from fleet.core.errors import FleetError, StoreAway
from fleet.core.jsontext import decode
from fleet.descent import is_agents
from fleet.settings.queue import BEADS, choose_queue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fleet.home import Home

#: Verbs that fleet handles itself, because a new task has fields that bd does not know.
OWN = ("create", "new")
#: Short writing verbs. They take turns with the supervisor, so that it sees the change at once.
TURNS = (
    *("update", "close", "done", "reopen", "delete", "dep", "link", "relate", "comment", "comments", "label", "tag"),
    *("assign", "priority", "note", "defer", "undefer", "import", "batch", "q", "unclaim", "reclaim", "heartbeat"),
    "config",
)


def is_forwarded(home: Home, argv: list[str]) -> bool:
    """Return True if a person calls a verb that the real bd must handle.

    An agent's commands are never forwarded. Its `bd close` hands in work, and fleet decides what an agent may change.
    """
    if is_agents(home.root) or not os.path.isdir(home.beads):  # noqa: PTH112
        return False
    if choose_queue(home, os.environ).kind != BEADS:
        return False
    return _verb(argv) not in OWN


def forward(home: Home, argv: list[str]) -> int:
    """Replace this process with the real bd. Raises StoreAway if bd cannot start.

    Raises BadInput for numbers that bd would silently change because it cannot store them.
    """
    verb = _verb(argv)
    if verb == "update":
        refuse_numbers(argv)
    program = real_bd(home, in_turn=verb in TURNS, for_settings=verb == "config")
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execve(program, ["bd", *argv], {**os.environ, "BEADS_DIR": home.beads})
    except OSError as error:
        raise StoreAway(f"{program} cannot be started: {error.strerror}") from error


def refuse_numbers(argv: list[str]) -> None:
    """Raise BadInput if metadata on this command line has a number that bd would change."""
    said: dict[str, Any] = {}
    for at, word in enumerate(argv):
        flag, equals, value = word.partition("=")
        value = value if equals else "".join(argv[at + 1 : at + 2])
        if flag == "--metadata":
            found = _decoded(value)
            said |= found if isinstance(found, dict) else {}
        elif flag == "--set-metadata":  # bd treats text that looks like a number as a number
            key, _, text = value.partition("=")
            found = _decoded(text)
            said |= {key: found} if isinstance(found, int | float) else {}
    if found := number_faults(said):
        raise refusal({"this": found})


def _decoded(text: str) -> Any:
    """Return the value of a JSON text or of the file that it names.

    Return None if invalid, because bd reports the error.
    """
    try:
        if text.startswith("@"):
            with open(text[1:], encoding="utf-8") as file:  # noqa: PTH123
                text = file.read()
        return decode(text)
    except (OSError, ValueError, RecursionError):
        return None


def _verb(argv: list[str]) -> str:
    try:
        return split_verb(argv)[0]
    except FleetError:
        return ""  # bd itself reports what is wrong with the command line
