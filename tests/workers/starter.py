"""Start agents and wait to be killed: `starter.py folder… [--lasting] -- behaviour [argument…]`; prints a line each."""

import asyncio
import sys

from fleet.agents.base import Agent
from fleet.agents.headless import HeadlessLauncher
from fleet.core.errors import FleetError
from launching import scripted


async def main() -> None:
    """Start an agent in each folder, print the results and wait."""
    split = sys.argv.index("--")
    folders, behaviour = sys.argv[1:split], sys.argv[split + 1 :]
    lasting = "--lasting" in folders
    launcher = HeadlessLauncher(lasting=lasting)
    folders = [folder for folder in folders if folder != "--lasting"]
    held: list[Agent] = []
    for folder in folders:
        try:
            held.append(await launcher.start(folder, scripted(*behaviour, keep_stdin=True)))
            say(launcher.containment)
        except FleetError as error:
            say(f"refused: {error} ({error.hint})")
    say("done")
    await asyncio.gather(*(agent.ended() for agent in held))
    say("ended")


def say(word: str) -> None:
    """Print one line and flush."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
