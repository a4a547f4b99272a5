"""`fleet bd` where bd has the tasks: the real bd is called with the same words, in the home."""

from __future__ import annotations

import os
import sys

from fleet.assembly import real_bd
from fleet.cli.bd.arguments import split_verb
from fleet.config.queue import BEADS, chosen
from fleet.core.bd_limits import number_faults, refusal
from fleet.core.errors import FleetError, StoreAway
from fleet.core.jsontext import decode
from fleet.descent import is_agents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fleet.home import Home

#: What fleet does itself: a new task has fields that bd does not know.
OWN = ("create", "new")
#: What writes and is soon over: it takes turns with the supervisor, which then sees it at once.
TURNS = (
    *("update", "close", "done", "reopen", "delete", "dep", "link", "relate", "comment", "comments", "label", "tag"),
    *("assign", "priority", "note", "defer", "undefer", "import", "batch", "q", "unclaim", "reclaim", "heartbeat"),
    "config",
)


def is_forwarded(home: Home, argv: list[str]) -> bool:
    """Whether the real bd is to answer: a person calls, and it is nothing that fleet does itself.

    An agent's words never go there: its `bd close` hands in, and what it may touch is fleet's to say.
    """
    if is_agents(home.root) or not os.path.isdir(home.beads):  # noqa: PTH112
        return False
    if chosen(home, os.environ).kind != BEADS:
        return False
    return _verb(argv) not in OWN


def forward(home: Home, argv: list[str]) -> int:
    """Become the real bd; comes back only when that cannot be. Raises StoreAway, and BadInput for what it would change.

    It takes a number that it cannot hold, and has another then, without a word.
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
    """See that no metadata on this command line has a number that bd would change. Raises BadInput."""
    said: dict[str, Any] = {}
    for at, word in enumerate(argv):
        flag, equals, value = word.partition("=")
        value = value if equals else "".join(argv[at + 1 : at + 2])
        if flag == "--metadata":
            found = _decoded(value)
            said |= found if isinstance(found, dict) else {}
        elif flag == "--set-metadata":  # bd takes for a number what looks like one
            key, _, text = value.partition("=")
            found = _decoded(text)
            said |= {key: found} if isinstance(found, int | float) else {}
    if found := number_faults(said):
        raise refusal({"this": found})


def _decoded(text: str) -> Any:
    """What a JSON text says, or the file that it names; nothing where bd is to say what is wrong with it."""
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
        return ""  # bd has its own way of saying what is wrong with a command line
