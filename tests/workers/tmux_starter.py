"""Start an agent in a terminal and wait to be killed: `tmux_starter.py socket folder containment -- command…`."""

import asyncio
import sys

from fleet.agents.tmux import TmuxLauncher
from launching import scripted


async def main() -> None:
    """Start the agent and wait."""
    split = sys.argv.index("--")
    socket, folder, containment = sys.argv[1:split]
    launcher = TmuxLauncher(socket, containment=containment)
    agent = await launcher.start(folder, scripted(argv=tuple(sys.argv[split + 1 :])))
    await agent.ended()


if __name__ == "__main__":
    asyncio.run(main())
