"""Coders for tests of messages, named by their import strings: one for each way a message can reach an agent."""

import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from fleet.coders.base import NEXT_RUN, RESUME, SAME_CWD, STDIN, Command, Order
from fleet.coders.demo.adapter import DemoCoder
from fleet.core.event import Event, Kind

AGENT = str(Path(__file__).with_name("steered_agent.py"))


class ListeningCoder(DemoCoder):
    """A coder whose agents read messages on stdin while they work, and print a line `delivered` for each."""

    name = "workers.steered:ListeningCoder"
    stop_steps = (signal.SIGTERM,)
    steering = STDIN
    resumes = SAME_CWD

    def command(self, order: Order) -> Command:
        """Return the command; the prompt is the first message on stdin."""
        return Command(argv=(*_argv(order), "--listen"), stdin=self.message(order.prompt), keep_stdin=True)

    def parse(self, line: str) -> list[Event]:
        """Parse the demo coder's stream and the lines `delivered`."""
        found = super().parse(line)
        if not found and '"delivered"' in line:
            return [Event(kind=Kind.DELIVERED, text=json.loads(line)["text"])]
        return found

    def message(self, text: str) -> str:
        """Return a message as a line of JSON."""
        return json.dumps({"say": text}) + "\n"

    def interruption(self) -> str:
        """Return an interruption as a line of JSON."""
        return json.dumps({"stop": True}) + "\n"


class ResumingCoder(DemoCoder):
    """A coder whose agents must be stopped to get a message; their sessions can be resumed."""

    name = "workers.steered:ResumingCoder"
    stop_steps = (signal.SIGTERM,)
    steering = RESUME
    resumes = SAME_CWD

    def command(self, order: Order) -> Command:
        """Return the command; stdin holds only the prompt."""
        return Command(argv=_argv(order), stdin=order.prompt)


class LaterCoder(ResumingCoder):
    """A coder whose agents get no messages while they work and have no sessions."""

    name = "workers.steered:LaterCoder"
    steering = NEXT_RUN
    resumes = ""


class KeyedCoder(LaterCoder):
    """A coder that needs a key from the settings."""

    name = "workers.steered:KeyedCoder"

    def login_signs(self, env: Mapping[str, str]) -> tuple[str, ...]:
        return ("KEY_OF_ITS_OWN",)


def _argv(order: Order) -> tuple[str, ...]:
    session = (f"--session={order.session}",) if order.session else ()
    return (sys.executable, "-I", "-S", AGENT, *session)
