"""Starts an agent in a terminal, waits to be killed: `tmux_starter.py socket folder containment [spares] -- command…`.

With a folder for spares it has a spare session ready, which becomes the agent's.
"""

import asyncio
import contextlib
import sys

from fleet.launchers.tmux import TmuxLauncher
from launching import scripted, with_spares


async def main() -> None:
    """Start it, hold it."""
    split = sys.argv.index("--")
    socket, folder, containment, *spares = sys.argv[1:split]
    launcher = TmuxLauncher(socket, containment=containment, spares=spares[0] if spares else None)
    with with_spares(launcher) if spares else contextlib.nullcontext():
        agent = await launcher.start(folder, scripted(argv=tuple(sys.argv[split + 1 :])))
        await agent.ended()


if __name__ == "__main__":
    asyncio.run(main())
