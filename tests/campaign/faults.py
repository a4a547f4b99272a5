"""What befalls the hosts of a campaign: faults of every kind, each for less or more than a lease."""

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

#: How long the first, the second … of them last, in leases: long enough that others may take over, while there is most
#: work; then too short to matter.
LEASES = (2.2, 1.3, 0.5, 0.5)
#: How long there is peace between two.
PEACE_SECONDS = (0.1, 0.6)
#: How far the database's clock is set, in leases: every claim looks expired, and nothing that is put off takes long.
SET_LEASES = (2.0, 4.0)
Back = Callable[[], None]


class Faults:
    """Does harm, and puts it right."""

    def __init__(self, network: Network, database: Database, hosts: list[Host], lease: float) -> None:
        self.told: list[str] = []
        self._network, self._database, self._hosts, self._lease = network, database, hosts, lease

    def befall(self, kinds: Sequence[str], seed: str, at_work: Callable[[], int]) -> None:
        """One fault after the other; it is noted how many agents were at work then."""
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
        """Pull cables of hosts."""
        return self._cut([host.name for host in victims], chance)

    def cut_database(self, _: list[Host], chance: random.Random) -> Back:
        """Pull the database's cable."""
        return self._cut(["db"], chance)

    def stop_database(self, _: list[Host], __: random.Random) -> Back:
        """Stop its server."""
        self._database.stop()
        return self._database.start

    def set_database_clock(self, _: list[Host], chance: random.Random) -> Back:
        """Set the clock of its machine, forward or back; then right again."""
        ahead = chance.choice((-1, 1)) * chance.uniform(*SET_LEASES) * self._lease
        self.told.append(f"clock set by {ahead:+.1f} s")
        self._database.set_clock(f"{ahead:+.1f}")
        return lambda: self._database.set_clock("+0")

    def kill_host(self, victims: list[Host], _: random.Random) -> Back:
        """Pull the plug of a host."""
        victims[0].kill_all()
        return victims[0].start

    def kill_supervisor(self, victims: list[Host], _: random.Random) -> Back:
        """Its supervisor alone; its agents go on."""
        victims[0].kill_supervisor()
        return victims[0].start

    def kill_shims(self, victims: list[Host], _: random.Random) -> Back:
        """All shims, now and then once more; what starts them too."""

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
    """Whether a folder of /proc is that of a shim, or of what starts them."""
    try:
        return b"fleet.launchers.shim" in (entry / "cmdline").read_bytes()
    except OSError:
        return False
