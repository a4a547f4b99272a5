"""A PostgreSQL server on a separate machine: hosts reach it over the network, the test through a socket file."""

import subprocess
import time

import psycopg
from psycopg.conninfo import conninfo_to_dict

from campaign.network import Network
from postgres import START_SECONDS, Server, _ids

ADDRESSES = "10.77.0.0/24"


class Database(Server):
    """A server that listens in a network namespace, and whose clock can be set."""

    def __init__(self, network: Network, machine: str) -> None:
        self._network, self._machine = network, machine
        super().__init__(faked=True)

    def start(self) -> None:
        """Start the server on its machine, and wait until it answers."""
        rules = self._data / "pg_hba.conf"
        rule = f"host all all {ADDRESSES} trust\n"
        if rule not in rules.read_text():
            with rules.open("a") as file:
                file.write(rule)
        words = [*self._start, "-D", str(self._data), "-c", f"unix_socket_directories={self.folder}"]
        words += ["-c", f"listen_addresses={self._network.address(self._machine)}", "-c", "fsync=off"]
        if self.user:
            user, group = _ids(self.user)
            words = ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", *words]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._network.inside(self._machine, *words),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )
        give_up = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(self.url(), connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > give_up or self._process.poll() is not None:
                    raise
                time.sleep(0.02)

    def over_the_network(self, url: str) -> str:
        """Return the URL of a database as the hosts know it."""
        name = conninfo_to_dict(url)["dbname"]
        return f"postgresql://fleet@{self._network.address(self._machine)}:5432/{name}?sslmode=disable"
