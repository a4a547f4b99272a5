"""Separate hosts as fleet sees them: each is a home with a name, and all share one PostgreSQL."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from postgres import server
from program import Process, Program
from supervised import CODER, PATIENCE, commands, wait_for

SETTINGS = """
queue = "{queue}"
coder = "{coder}"
agent.env = {{AUDIT = "{audit}"}}
host = {{name = "{name}", labels = {labels}}}

[supervisor]
claim_seconds = 3
poll_seconds = 0.5
min_free_disk_mb = 1
min_free_memory_mb = 1
"""


class Machine:
    """A separate host as fleet sees it: another home and name, the same database."""

    def __init__(self, folder: Path, name: str, queue: str, *labels: str, more: str = "") -> None:
        folder.mkdir()
        self.name, self.queue, self.fleet = name, queue, Program(folder)
        tests = Path(__file__).parent
        self.audit = folder / "audit"
        self.audit.touch()
        self.fleet.env["PYTHONPATH"] = f"{tests}:{tests / 'workers'}"
        self.fleet.home.mkdir(0o700)
        told = SETTINGS.format(queue=queue, coder=CODER, name=name, labels=json.dumps(labels), audit=self.audit)
        (self.fleet.home / "runtime.toml").write_text(told + more)
        self.process: Process | None = None

    def start(self) -> None:
        """Start the supervisor, and wait until other hosts see it."""
        with (self.fleet.user / "supervisor.out").open("ab") as log:
            self.process = self.fleet.start("run", stdout=log.fileno(), stderr=log.fileno())
        lock = self.fleet.home / "supervisor.lock"
        mine = f'"pid": {self.process.pid},'
        wait_for(lambda: lock.exists() and mine in lock.read_text(), f"{self.name} to start", self.said)
        wait_for(lambda: self.hosts().get(self.name, {}).get("state") == "here", f"{self.name} to be seen", self.said)

    def hosts(self) -> dict[str, dict[str, Any]]:
        """Return the hosts that this one knows, by name."""
        return {row["name"]: row for row in json.loads(self.fleet.ok("hosts", "--json"))}

    def add(self, do: str = "ok", **wanted: list[str]) -> None:
        """Add tasks without a directory, by name, with the labels that each requires of a host."""
        rows = []
        for name, words in wanted.items():
            metadata = {"fleet.requires": json.dumps(sorted(words))} if words else {}
            rows.append({"id": f"t-{name}", "title": name, "description": f"do: {do}", "metadata": metadata})
        self.fleet.ok("bd", "import", "-", stdin="".join(json.dumps(row) + "\n" for row in rows))

    def open(self) -> list[str]:
        """Return the tasks that are not closed."""
        return sorted(row["id"] for row in json.loads(self.fleet.ok("bd", "list", "--json")))

    def wait(self, *left: str) -> None:
        """Wait until only these tasks are open."""
        wait_for(lambda: self.open() == sorted(left), f"only {left} to be left", self.said)

    def ran(self) -> list[str]:
        """Return the tasks whose agents were started on this host."""
        return sorted({task for what, task, *_ in self.notes() if what == "start"})

    def notes(self) -> list[list[str]]:
        """Return what its agents recorded: [what, task, run, pid, time]."""
        return [line.split() for line in self.audit.read_text().splitlines()]

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return rows of the shared database."""
        with psycopg.connect(self.queue, options="-c search_path=fleet") as link:
            return link.execute(sql.encode(), values).fetchall()

    def said(self) -> str:
        return (self.fleet.user / "supervisor.out").read_text(errors="replace")[-3000:]

    def vanish(self) -> None:
        """Kill the supervisor and everything that it started, at once."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        mark = str(self.fleet.home).encode()
        for pid, words in commands():
            if pid != os.getpid() and any(mark in word for word in words):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGUSR1)
            self.process.wait(PATIENCE)
        elif self.process is None:
            self.fleet.ok("run", "stop", "--stop-agents")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Callable[..., Machine]]:
    """Yield a function that creates hosts with one database."""
    queue = server().make_database()
    made: list[Machine] = []

    def make(name: str, *labels: str, start: bool = True, more: str = "") -> Machine:
        made.append(Machine(tmp_path / name, name, queue, *labels, more=more))
        if start:
            made[-1].start()
        return made[-1]

    yield make
    for each in made:
        each.stop()
