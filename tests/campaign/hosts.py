"""Hosts of a campaign: each has a machine, a disk that the others do not see, and a supervisor."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from campaign.network import Network
from postgres import faketime

CODER = "campaign.coder:CampaignCoder"
#: Mounts a host's own disk over the folder where every host has one, then becomes the command. It hides faketime's
#: files of killed processes, because faketime fails if a file with the id of its process exists.
ENTER = 'mount --bind "$1" "$2" && mount -t tmpfs none /dev/shm && cd "$2" && shift 2 && exec "$@"'
ENVIRONMENT = {"LANG": "C.UTF-8", "TZ": "UTC"}


class Host:
    """One host. Its files are under `here`, which is another folder for each host."""

    def __init__(
        self, network: Network, name: str, base: Path, url: str, *, skew: str = "", is_weak: bool = False
    ) -> None:
        self.name, self.disk, self._network = name, base / "hosts" / name, network
        self.here = base / "here"
        self.home = self.disk / "home"
        self.audit = self.disk / "audit"
        for folder in (self.here, self.disk, self.disk / "user"):
            folder.mkdir(parents=True, exist_ok=True)
        tests = Path(__file__).parents[1]
        self._env = ENVIRONMENT | {
            "PATH": os.environ["PATH"],
            "HOME": str(self.here / "user"),
            "FLEET_HOME": str(self.here / "home"),
            "FLEET_QUEUE": url,
            "PYTHONPATH": str(tests),
        }
        if skew:
            self._env |= {
                "LD_PRELOAD": faketime(),
                "FAKETIME": skew,
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                "DONT_FAKE_MONOTONIC": "1",
                "PYTHONPATH": f"{tests}:{Path(__file__).with_name('skewed')}",
            }
        if is_weak:  # PID namespaces are unavailable on this host
            (base / "weak").mkdir(exist_ok=True)
            (base / "weak" / "unshare").symlink_to("/bin/false")
            self._env["PATH"] = f"{base / 'weak'}:{self._env['PATH']}"
        self._process: subprocess.Popen[bytes] | None = None

    def fleet(self, *words: str, cwd: str = "", tries: int = 1) -> str:
        """Run `fleet` on this host. Return its output."""
        for left in reversed(range(tries)):
            done = subprocess.run(self._command(*words, cwd=cwd), env=self._env, capture_output=True, timeout=120)
            if done.returncode == 0 or not left:
                break
            time.sleep(1)
        assert done.returncode == 0, (self.name, words, done.stdout.decode(), done.stderr.decode())
        return done.stdout.decode()

    def set_up(self, lease: int, slots: int) -> None:
        """Create the home."""
        # The server may still be busy after faults of the previous campaign.
        self.fleet("init", "--permissions", "user", tries=5)
        self.fleet(
            *("config", "set", f"coder={CODER}", f"host.name={self.name}", f"max_concurrent={slots}"),
            *("limits.lost_limit=100", "limits.continue_limit=100"),
            *(f"supervisor.claim_seconds={lease}", "supervisor.poll_seconds=0.3", "supervisor.min_free_disk_mb=1"),
            *("supervisor.min_free_memory_mb=1", f'agent.env={{AUDIT = "{self.here / "audit"}"}}'),
        )

    def start(self) -> None:
        """Start the supervisor."""
        with (self.disk / "supervisor.out").open("ab") as log:
            self._process = subprocess.Popen(
                self._command("run"), env=self._env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def kill_supervisor(self) -> None:
        """Kill only the supervisor with SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def kill_all(self) -> None:
        """Stop everything on the host at one moment and kill it, as a power failure does."""
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in self._network.processes(self.name):
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    continue
        if self._process is not None:
            self._process.wait()

    @property
    def is_over(self) -> bool:
        """Return True if the supervisor has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def said(self) -> str:
        """Return the end of the supervisor's output."""
        file = self.disk / "supervisor.out"
        return file.read_text(errors="replace")[-4000:] if file.exists() else ""

    def _command(self, *words: str, cwd: str = "") -> list[str]:
        fleet = str(Path(sys.executable).with_name("fleet"))
        inside = ["sh", "-c", ENTER, "sh", str(self.disk), str(self.here)]
        moved = ["env", "-C", cwd] if cwd else []
        return self._network.inside(self.name, *inside, *moved, fleet, *words)
