"""Antigravity's `agy`: it prints plain text, and ends without saying how it went.

It cannot be had where fleet is made. What stands here follows its documents and what others saw of it: it takes a
prompt as the word after `-p` and nowhere else, has no option for a model (that is in its own settings) and none to go
on in a session, and tells neither tokens nor costs. What an agent did is known from what it hands in.
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
#: Where the text of a line may be, if it is JSON after all.
TEXTS = ("text", "content", "response", "message")


class AgyCoder(Coder):
    """Runs `agy`."""

    name = "agy"
    program = "agy"
    project_files = (".antigravity/**", ".gemini/**", ".agents/**", ".agent/**")
    reads_env = ("ANTIGRAVITY_*", "GEMINI_*", "GOOGLE_*")
    tells_result = False
    tells_tools = False
    tells_tokens = False

    def command(self, order: Order) -> Command:
        """The prompt lies in a file of the run, and the agent is told to read it.

        As an argument it could be read by everyone on the machine, and would be too long for the system at 128 KiB.
        The order's model is left out: there is no option for it.
        """
        place = f"{order.folder}/{PROMPT}" if order.folder else PROMPT
        argv = ["agy", "-p", f'Read the file "{place}" first, all of it, and do exactly what it says.']
        if order.permissions == "skip":
            argv.append("--dangerously-skip-permissions")
        return Command(argv=(*argv, *order.flags), files={PROMPT: order.prompt})

    def parse(self, line: str) -> list[Event]:
        """A line is a text. It may speak of limits and logins as it likes: an agent's text decides nothing."""
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
        """What it complained of, where it failed."""
        complaint = stderr.strip()[-1000:]
        if not status or not complaint:
            return None
        return refusal(complaint) or Event(kind=Kind.ERROR, text=complaint[-300:])

    def login_signs(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """The settings that its first start leaves."""
        return (f"{env.get('HOME', '')}/.gemini/antigravity-cli/settings.json",)
