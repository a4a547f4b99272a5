"""Antigravity's `agy`, which prints plain text and exits without reporting a result.

We could not test this adapter with the real program. It follows the program's documentation and reports from users.
`agy` takes a prompt only as the argument of `-p`. It has no option for a model, which comes from its own settings, and
none to resume a session. It reports neither tokens nor costs. fleet judges the agent by what it hands in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.coders.base import Coder, Command
from fleet.coders.refusals import refusal
from fleet.coders.said import clean, decoded, text
from fleet.core.event import Event, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.coders.base import Order

PROMPT = "agy-prompt.md"
#: Keys that may hold the text of a line that is JSON.
TEXTS = ("text", "content", "response", "message")


class AgyCoder(Coder):
    """Adapter for `agy`."""

    name = "agy"
    program = "agy"
    project_files = (".antigravity/**", ".gemini/**", ".agents/**", ".agent/**")
    reads_env = ("ANTIGRAVITY_*", "GEMINI_*", "GOOGLE_*")
    tells_result = False
    tells_tools = False
    tells_tokens = False

    def command(self, order: Order) -> Command:
        """Write the prompt to a file of the run and tell the agent to read that file.

        Every user of the machine could read a prompt in argv, and the kernel refuses arguments over 128 KiB. The
        order's model is ignored because `agy` has no option for it.
        """
        place = f"{order.folder}/{PROMPT}" if order.folder else PROMPT
        argv = ["agy", "-p", f'Read the file "{place}" first, all of it, and do exactly what it says.']
        if order.permissions == "skip":
            argv.append("--dangerously-skip-permissions")
        return Command(argv=(*argv, *order.flags), files={PROMPT: order.prompt})

    def parse(self, line: str) -> list[Event]:
        """Return a line as TEXT. Its words about limits and logins are ignored: an agent's text decides nothing."""
        if not line.strip():
            return []
        said = decoded(line) if line.lstrip().startswith("{") else None
        if said is None:
            return [Event(kind=Kind.TEXT, text=clean(line))]
        if complaint := text(said, "error"):
            return [Event(kind=Kind.ERROR, text=complaint)]
        found = next((words for key in TEXTS if (words := text(said, key))), "")
        return [Event(kind=Kind.TEXT, text=found)] if found else []

    def explain(self, status: int | None, stderr: str) -> Event | None:
        """Return the complaint on stderr if the program failed."""
        complaint = stderr.strip()[-1000:]
        if not status or not complaint:
            return None
        return refusal(complaint) or Event(kind=Kind.ERROR, text=complaint[-300:])

    def login_signs(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """Return the settings file that the first start of `agy` creates."""
        return (f"{env.get('HOME', '')}/.gemini/antigravity-cli/settings.json",)
