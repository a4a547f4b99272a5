"""A coder for tests, named in settings by its import string: its agents do what the task's description says."""

import signal
import sys
from pathlib import Path

from fleet.coders.base import Command, Order
from fleet.coders.demo.adapter import DemoCoder


class ScriptedCoder(DemoCoder):
    """Speaks the demo coder's stream; runs tests/workers/scripted_agent.py."""

    name = "workers.scripted:ScriptedCoder"
    stop_steps = (signal.SIGTERM,)

    def command(self, order: Order) -> Command:
        """The agent, with the prompt on stdin."""
        agent = str(Path(__file__).with_name("scripted_agent.py"))
        return Command(argv=(sys.executable, "-I", "-S", agent), stdin=order.prompt)
