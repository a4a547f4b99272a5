"""Machines on one switch, each in its own network namespace, whose cables can be pulled. `close` removes everything."""

import os
import secrets
import shutil
import subprocess

import leftovers

#: The prefix of all names of one network, followed by its token.
PREFIX = os.environ.get(leftovers.RUN, "flt")
#: Waits until the process that created the network ends in any way, then removes the network and its processes.
GUARD = """
read -r _
for space; do ip netns pids "$space" | xargs -r kill -9; done
for space; do ip netns del "$space"; done
"""


def can_be_had() -> bool:
    """Return True if this machine allows networks, which needs root and the program `ip`."""
    if not shutil.which("ip"):
        return False
    name = f"{PREFIX}{secrets.token_hex(3)}"
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    if tried.returncode == 0:
        _ip("netns", "del", name)
    return tried.returncode == 0


class Network:
    """A switch, and machines with one address each."""

    def __init__(self, *names: str) -> None:
        self._token = secrets.token_hex(3)
        self._numbers = {name: number for number, name in enumerate(names, 1)}
        self._switch, *spaces = [self._name(name) for name in ("switch", *names)]
        self._guard = subprocess.Popen(
            ["sh", "-c", GUARD, "sh", self._switch, *spaces],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            _ip("netns", "add", self._switch)
            _ip("-n", self._switch, "link", "add", "br0", "type", "bridge")
            _ip("-n", self._switch, "link", "set", "br0", "up")
            for name in names:
                self._plug_in(name)
        except BaseException:
            self.close()
            raise

    def address(self, name: str) -> str:
        """Return the address of a machine."""
        return f"10.77.0.{self._numbers[name]}"

    def inside(self, name: str, *words: str) -> list[str]:
        """Return the command that runs these words on a machine. The words keep the pid of the command."""
        return ["ip", "netns", "exec", self._name(name), *words]

    def processes(self, name: str) -> list[int]:
        """Return every process of a machine."""
        return [int(pid) for pid in _ip("netns", "pids", self._name(name)).split()]

    def cut(self, name: str, *, silently: bool) -> None:
        """Pull a machine's cable. If `silently`, the machine does not notice, and its packets are lost."""
        how = ("nomaster",) if silently else ("down",)
        _ip("-n", self._switch, "link", "set", self._port(name), *how)

    def mend(self, name: str) -> None:
        """Reconnect the cable."""
        _ip("-n", self._switch, "link", "set", self._port(name), "master", "br0", "up")

    def close(self) -> None:
        """Remove everything; the cables go with their ends."""
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait(30)

    def _name(self, name: str) -> str:
        return f"{PREFIX}{self._token}{name}"

    def _port(self, name: str) -> str:
        return f"p{self._numbers[name]}"

    def _plug_in(self, name: str) -> None:
        space, port = self._name(name), self._port(name)
        _ip("netns", "add", space)
        _ip("-n", self._switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", space)
        _ip("-n", space, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
        for where, link in ((space, "lo"), (space, "eth0")):
            _ip("-n", where, "link", "set", link, "up")
        self.mend(name)


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False, timeout=30)
    if done.returncode:
        raise AssertionError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout
