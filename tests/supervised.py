"""A supervisor in its own home, watched from outside: no code of fleet checks its promises."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from needs import require
from program import Process, Program

CODER = "workers.scripted:ScriptedCoder"
#: Seconds to wait for expected events; a busy machine is slow.
PATIENCE = 120.0


class Supervised:
    """A home with the scripted coder as its default, and supervisors that can be killed."""

    def __init__(self, fleet: Program) -> None:
        self.fleet = fleet
        self.audit = fleet.user / "audit"
        self.audit.touch()
        self.go = fleet.user / "go"  # agents with `until={go}` end when the file exists
        tests = Path(__file__).parent
        fleet.env["PYTHONPATH"] = f"{tests}:{tests / 'workers'}"
        settings = (
            *(f"coder={CODER}", "max_concurrent=3", f'agent.env={{AUDIT = "{self.audit}"}}'),
            *("supervisor.min_free_disk_mb=1", "supervisor.min_free_memory_mb=1", "supervisor.claim_seconds=10"),
        )
        fleet.furnish(("init", "--permissions", "user"), ("config", "set", *settings))
        self.process: Process | None = None
        self.seed = 0  # of a random test, printed when it fails

    def set(self, *pairs: str) -> None:
        self.fleet.ok("config", "set", *pairs)

    def start(self) -> None:
        """Start a supervisor, and wait until it holds the home."""
        self.spawn()
        process = self.process
        assert process is not None
        lock = self.fleet.home / "supervisor.lock"
        mine = f'"pid": {process.pid},'
        wait_for(
            lambda: process.poll() is not None or (lock.exists() and mine in lock.read_text()),
            "its start",
            self.describe,
        )

    def spawn(self) -> None:
        """Start a supervisor without waiting."""
        if self.process is not None:
            self.process.wait(PATIENCE)
        with (self.fleet.user / "supervisor.out").open("ab") as log:
            self.process = self.fleet.start("run", stdout=log.fileno(), stderr=log.fileno())

    def kill(self) -> None:
        """Kill the supervisor with SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Ask the supervisor and its agents to end."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGUSR1)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.kill()

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.fleet("run", "status", "--json").out or "{}")
        return found or {"running": False}

    def create(self, do: str, *argv: str) -> str:
        """Create a task whose agent has these orders. Return its id."""
        made = json.loads(self.fleet.ok("bd", "create", do[:80], "-d", f"do: {do}", *argv, "--json"))
        return str(made["id"])

    def create_many(self, orders: list[str]) -> list[str]:
        """Create a task for each order in one call. Return their ids."""
        plan = self.fleet.user / "plan.md"
        plan.write_text("".join(f"## {do[:80]}\n\n### Description\ndo: {do}\n\n" for do in orders))
        made = json.loads(self.fleet.ok("bd", "create", "--file", str(plan), "--json"))
        return [str(row["id"]) for row in made]

    def task(self, key: str) -> dict[str, Any]:
        """Return a task from the database."""
        return self.rows("select * from tasks where id = ?", key)[0]

    def runs(self, key: str) -> list[dict[str, Any]]:
        """Return a task's runs from the database."""
        return self.rows("select * from runs where task = ? order by number", key)

    def rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(f"file:{self.fleet.home}/fleet.db?mode=ro", uri=True, timeout=30)) as database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute(sql, values)]

    def wait_status(self, key: str, *statuses: str, patience: float = PATIENCE) -> dict[str, Any]:
        """Wait until a task has one of these statuses. Return the task."""
        wait_for(lambda: self.task(key)["status"] in statuses, f"{key} to be {statuses}", self.describe, patience)
        return self.task(key)

    def wait_all(self, keys: list[str], *statuses: str, patience: float = PATIENCE) -> None:
        wanted = ",".join("?" * len(keys))
        sql = f"select count(*) as n from tasks where id in ({wanted}) and status in ({','.join('?' * len(statuses))})"
        wait_for(
            lambda: self.rows(sql, *keys, *statuses)[0]["n"] == len(keys),
            f"all to be {statuses}",
            self.describe,
            patience,
        )

    def wait_started(self, count: int) -> None:
        """Wait until so many agents were started."""
        wait_for(lambda: len(self.notes("start")) >= count, f"{count} agents to start", self.describe)

    def notes(self, what: str = "") -> list[list[str]]:
        """Return the audit: [what, task, run, pid, time]."""
        lines = [line.split() for line in self.audit.read_text().splitlines()]
        return [line for line in lines if not what or line[0] == what]

    def agents(self) -> list[int]:
        """Return the agents' processes on this machine that have this home in their environment."""
        return [pid for pid, words in self._processes() if any(word.startswith(b"FLEET_RUN_ID=") for word in words)]

    def command_lines(self) -> list[str]:
        """Return the command line of each process that carries this home in its environment."""
        mine = {pid for pid, _ in self._processes()}
        return [os.fsdecode(b" ".join(words)) for pid, words in commands() if pid in mine]

    def _processes(self) -> Iterator[tuple[int, list[bytes]]]:
        mark = b"FLEET_HOME=" + bytes(self.fleet.home)
        for pid in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
            if mark in (words := environment(pid)):
                yield pid, words

    def strays(self) -> list[int]:
        """Return the processes that agents left behind, also hidden ones: their command names the audit."""
        mark = str(self.audit).encode()
        return [pid for pid, command in commands() if mark in command]

    def memory_kb(self, what: str) -> int:
        """Return the current (VmRSS) or peak (VmHWM) memory of the supervisor's own process."""
        assert self.process is not None
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{what}:"))

    def log_lines(self) -> list[dict[str, Any]]:
        """Return the supervisor's own log; each line must be JSON."""
        files = sorted((self.fleet.home / "logging").glob("fleet-*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def describe(self) -> str:
        tasks = self.rows("select id, status, reason, failures, claim_owner, epoch from tasks where status <> 'closed'")
        said = (self.fleet.user / "supervisor.out").read_text(errors="replace")[-3000:]
        return f"FLEET_SEED={self.seed}\n{tasks}\n{said}"


def wait_for(
    condition: Callable[[], object], what: str, tell: Callable[[], str] = str, patience: float = PATIENCE
) -> None:
    """Wait until the condition holds. Fails with a description if it takes too long."""
    end = time.monotonic() + patience
    while True:
        began = time.monotonic()
        if condition():
            return
        now = time.monotonic()
        if now > end:
            pytest.fail(f"waited {patience:g} s for {what}\n{tell()}")
        # A check that starts a program takes CPU time from what the test waits for.
        time.sleep(min(max(0.03, now - began), 0.3))


def commands() -> Iterator[tuple[int, list[bytes]]]:
    """Yield every process of this machine with the words of its command."""
    for entry in Path("/proc").iterdir():
        try:
            yield int(entry.name), (entry / "cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            continue


def environment(pid: int) -> list[bytes]:
    """Return the environment of a process at its start, or [] if it has ended."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


@contextmanager
def small_disk(place: Path, size: str, *options: str) -> Iterator[Callable[[], Path]]:
    """Mount a small file system over a folder, whose content stays.

    Yields a function that fills it and returns the file to remove.
    """
    wanted = ",".join((f"size={size}", *options))
    with _mounted(place, "-t", "tmpfs", "-o", wanted, "tmpfs"):
        yield lambda: fill(place / "filler")


@contextmanager
def disk_with_quotas(place: Path, image: Path) -> Iterator[None]:
    """Mount a file system over a folder, whose content stays. `btrfs qgroup limit` limits its size."""
    require(shutil.which("mkfs.btrfs"), "a disk with quotas (mkfs.btrfs)")
    with image.open("wb") as file:
        file.truncate(256 << 20)
    subprocess.run(["mkfs.btrfs", "--quiet", "--mixed", str(image)], check=True, stdout=subprocess.DEVNULL)
    with _mounted(place, "-o", "loop", str(image)):
        subprocess.run(["btrfs", "quota", "enable", str(place)], check=True)
        yield


@contextmanager
def _mounted(place: Path, *words: str) -> Iterator[None]:
    require(os.geteuid() == 0, "mounting a small file system (needs root)")
    place.mkdir(exist_ok=True)
    kept = place.with_name(f"{place.name}.kept")
    shutil.copytree(place, kept)
    subprocess.run(["mount", *words, str(place)], check=True)
    try:
        place.chmod(0o700)
        shutil.copytree(kept, place, dirs_exist_ok=True)
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(path: Path) -> Path:
    """Write until nothing more fits."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"\0" * 4096)
    return path


def fill_inodes(folder: Path) -> None:
    """Create files until no inode is left."""
    folder.mkdir()
    with suppress(OSError):
        for number in range(1_000_000):
            (folder / str(number)).touch()


@pytest.fixture
def home(fleet: Program) -> Iterator[Supervised]:
    made = Supervised(fleet)
    yield made
    made.stop()
