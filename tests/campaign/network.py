"""Machines on one switch, each in a network namespace of its own: cables can be pulled. All of it goes with `close`."""

import os
import secrets
import shutil
import subprocess

import leftovers

#: The names of everything that one network has begin with this and a token of its own.
PREFIX = os.environ.get(leftovers.RUN, "flt")
#: Waits until whoever made a network ends, in whatever way; then everything of it goes, and what runs there.
GUARD = """
read -r _
for space; do ip netns pids "$space" | xargs -r kill -9; done
for space; do ip netns del "$space"; done
"""


def can_be_had() -> bool:
    """Whether this machine lets us make networks: that needs root, and the program `ip`."""
    if not shutil.which("ip"):
        return False
    name = f"{PREFIX}{secrets.token_hex(3)}"
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    if tried.returncode == 0:
        _ip("netns", "del", name)
    return tried.returncode == 0


class Network:
    """A switch, and machines with an address each."""

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
        """Where a machine is reached by the others."""
        return f"10.77.0.{self._numbers[name]}"

    def inside(self, name: str, *words: str) -> list[str]:
        """The command that does this on a machine. It becomes what is said: its number is that of the process."""
        return ["ip", "netns", "exec", self._name(name), *words]

    def processes(self, name: str) -> list[int]:
        """Every process of a machine."""
        return [int(pid) for pid in _ip("netns", "pids", self._name(name)).split()]

    def cut(self, name: str, *, silently: bool) -> None:
        """Pull a machine's cable; silently: it does not notice, and what it sends is lost."""
        how = ("nomaster",) if silently else ("down",)
        _ip("-n", self._switch, "link", "set", self._port(name), *how)

    def mend(self, name: str) -> None:
        """Put it back."""
        _ip("-n", self._switch, "link", "set", self._port(name), "master", "br0", "up")

    def close(self) -> None:
        """Take everything away; the cables go with their ends."""
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
