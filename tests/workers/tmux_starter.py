"""Starts an agent in a terminal and waits to be killed: `tmux_starter.py socket folder containment -- command…`."""

import asyncio
import sys

from fleet.launchers.tmux import TmuxLauncher
from launching import scripted


async def main() -> None:
    """Start it, hold it."""
    socket, folder, containment, _, *command = sys.argv[1:]
    agent = await TmuxLauncher(socket, containment=containment).start(folder, scripted(argv=tuple(command)))
    await agent.ended()


if __name__ == "__main__":
    asyncio.run(main())
