"""Idle hosts, each with the supervisor of `fleet run`, many in one process.

`idle_hosts.py url folder first count`: prints a line when all of them are at work, and ends them after a line.
"""

import asyncio
import contextlib
import os
import sys
from pathlib import Path

from fleet.actions.control.main import make_context
from fleet.assembly import Fleet, open_fleet
from fleet.home import Home
from fleet.supervisor.host import Said
from fleet.supervisor.loop import Supervisor


def main() -> None:
    """Make their homes, open the queue for each, serve."""
    url, folder, first, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    os.environ["FLEET_QUEUE"] = url
    names = [f"host-{number}" for number in range(first, first + count)]
    with contextlib.ExitStack() as stack:
        fleets = {name: stack.enter_context(open_fleet(Home(str(folder / name)), make=True)) for name in names}
        asyncio.run(serve(fleets))


async def serve(fleets: dict[str, Fleet]) -> None:
    """Run all hosts until a line arrives on stdin."""
    contexts = [make_context(fleet, Said(name=name)) for name, fleet in fleets.items()]
    supervisors = [Supervisor(context) for context in contexts]
    async with asyncio.TaskGroup() as group:
        for each in supervisors:
            group.create_task(each.serve())
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.readline)
        for each in supervisors:
            each.stop()
    for context in contexts:
        context.close()


if __name__ == "__main__":
    main()
