"""The coder of the campaign, named in settings by its import path."""

import sys
from pathlib import Path

from fleet.coders.base import Command, Order
from fleet.coders.demo.adapter import DemoCoder


class CampaignCoder(DemoCoder):
    """A coder that uses the demo coder's stream."""

    name = "campaign.coder:CampaignCoder"

    def command(self, order: Order) -> Command:
        """Return the agent's command, with the prompt on stdin."""
        agent = str(Path(__file__).with_name("agent.py"))
        return Command(argv=(sys.executable, "-I", "-S", agent), stdin=order.prompt)
