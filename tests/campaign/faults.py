"""Faults that hit the hosts of a campaign, each for less or more than a lease."""

import contextlib
import itertools
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from campaign.database import Database
from campaign.hosts import Host
from campaign.network import Network

#: The duration of the first, second … fault in leases: long enough that others take over while there is most work;
#: later too short to matter.
LEASES = (2.2, 1.3, 0.5, 0.5)
#: The pause between two faults.
PEACE_SECONDS = (0.1, 0.6)
#: The offset of the database's clock in leases: every claim looks expired, and deferred work does not wait long.
SET_LEASES = (2.0, 4.0)
Back = Callable[[], None]


class Faults:
    """Causes faults and ends them."""

    def __init__(self, network: Network, database: Database, hosts: list[Host], lease: float) -> None:
        self.told: list[str] = []
        self._network, self._database, self._hosts, self._lease = network, database, hosts, lease

    def befall(self, kinds: Sequence[str], seed: str, at_work: Callable[[], int]) -> None:
        """Cause one fault after the other. Records how many agents were at work at each."""
        chance = random.Random(seed)
        for kind, leases in zip(kinds, itertools.cycle(LEASES), strict=False):
            time.sleep(chance.uniform(*PEACE_SECONDS))
            victims = chance.sample(self._hosts, 2 if kind == "two cut off" else 1)
            if kind == "shims killed":
                victims = self._hosts
            names = "" if kind.startswith("database") else f" {''.join(host.name for host in victims)}"
            self.told.append(f"{kind}{names} for {leases * self._lease:.1f} s with {at_work()} agents")
            back = {**OF_THE_NETWORK, **OF_HOSTS}[kind](self, victims, chance)
            time.sleep(leases * self._lease)
            back()

    def cut(self, victims: list[Host], chance: random.Random) -> Back:
        """Cut hosts off the network."""
        return self._cut([host.name for host in victims], chance)

    def cut_database(self, _: list[Host], chance: random.Random) -> Back:
        """Cut the database off the network."""
        return self._cut(["db"], chance)

    def stop_database(self, _: list[Host], __: random.Random) -> Back:
        """Stop the database server."""
        self._database.stop()
        return self._database.start

    def set_database_clock(self, _: list[Host], chance: random.Random) -> Back:
        """Set the clock of the database forward or back, and later right again."""
        ahead = chance.choice((-1, 1)) * chance.uniform(*SET_LEASES) * self._lease
        self.told.append(f"clock set by {ahead:+.1f} s")
        self._database.set_clock(f"{ahead:+.1f}")
        return lambda: self._database.set_clock("+0")

    def kill_host(self, victims: list[Host], _: random.Random) -> Back:
        """Kill everything on a host."""
        victims[0].kill_all()
        return victims[0].start

    def kill_supervisor(self, victims: list[Host], _: random.Random) -> Back:
        """Kill the supervisor of a host; its agents survive."""
        victims[0].kill_supervisor()
        return victims[0].start

    def kill_shims(self, victims: list[Host], _: random.Random) -> Back:
        """Kill all shims and their starters, at the start and at the end of the fault."""

        def kill() -> None:
            for host in victims:
                pids = [pid for pid in self._network.processes(host.name) if is_shim(Path(f"/proc/{pid}"))]
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                self.told.append(f"{len(pids)} shims killed on {host.name}")

        kill()
        return kill

    def _cut(self, names: list[str], chance: random.Random) -> Back:
        silently = chance.random() < 0.5
        for name in names:
            self._network.cut(name, silently=silently)

        def mend() -> None:
            for name in names:
                self._network.mend(name)

        return mend


Fault = Callable[[Faults, list[Host], random.Random], Back]
OF_THE_NETWORK: dict[str, Fault] = {
    "one cut off": Faults.cut,
    "two cut off": Faults.cut,
    "database cut off": Faults.cut_database,
    "database stopped": Faults.stop_database,
    "database clock set": Faults.set_database_clock,
}
OF_HOSTS: dict[str, Fault] = {
    "host killed": Faults.kill_host,
    "supervisor killed": Faults.kill_supervisor,
    "shims killed": Faults.kill_shims,
}


def is_shim(entry: Path) -> bool:
    """Return True if a folder of /proc belongs to a shim or to a starter of shims."""
    try:
        return b"fleet.agents.shim" in (entry / "cmdline").read_bytes()
    except OSError:
        return False
