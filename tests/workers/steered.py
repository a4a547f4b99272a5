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
    """Its agents read messages on stdin while they work, and say what they got as a line `delivered`."""

    name = "workers.steered:ListeningCoder"
    stop_steps = (signal.SIGTERM,)
    steering = STDIN
    resumes = SAME_CWD

    def command(self, order: Order) -> Command:
        """The prompt is the first message."""
        return Command(argv=(*_argv(order), "--listen"), stdin=self.message(order.prompt), keep_stdin=True)

    def parse(self, line: str) -> list[Event]:
        """The demo coder's stream, and what was heard."""
        found = super().parse(line)
        if not found and '"delivered"' in line:
            return [Event(kind=Kind.DELIVERED, text=json.loads(line)["text"])]
        return found

    def message(self, text: str) -> str:
        """A line of JSON."""
        return json.dumps({"say": text}) + "\n"

    def interruption(self) -> str:
        """Another one."""
        return json.dumps({"stop": True}) + "\n"


class ResumingCoder(DemoCoder):
    """Its agents must be stopped to hear something; their session goes on."""

    name = "workers.steered:ResumingCoder"
    stop_steps = (signal.SIGTERM,)
    steering = RESUME
    resumes = SAME_CWD

    def command(self, order: Order) -> Command:
        """The prompt on stdin, which then ends."""
        return Command(argv=_argv(order), stdin=order.prompt)


class LaterCoder(ResumingCoder):
    """Its agents hear nothing while they work, and have no session to go on with."""

    name = "workers.steered:LaterCoder"
    steering = NEXT_RUN
    resumes = ""


class KeyedCoder(LaterCoder):
    """Needs a key that agents get only where the settings say so."""

    name = "workers.steered:KeyedCoder"

    def login_signs(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """One variable."""
        return ("KEY_OF_ITS_OWN",)


def _argv(order: Order) -> tuple[str, ...]:
    session = (f"--session={order.session}",) if order.session else ()
    return (sys.executable, "-I", "-S", AGENT, *session)
