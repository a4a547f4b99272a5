"""A coder for tests, named in settings by its import string. Its agents follow the task's description."""

import signal
import sys
from pathlib import Path

from fleet.coders.base import Command, Order
from fleet.coders.demo.adapter import DemoCoder


class ScriptedCoder(DemoCoder):
    """A coder with the demo coder's stream that runs tests/workers/scripted_agent.py."""

    name = "workers.scripted:ScriptedCoder"
    stop_steps = (signal.SIGTERM,)

    def command(self, order: Order) -> Command:
        """Return the command of the agent; the prompt is on stdin."""
        agent = str(Path(__file__).with_name("scripted_agent.py"))
        return Command(argv=(sys.executable, "-I", "-S", agent), stdin=order.prompt)
