"""Several hosts on one PostgreSQL: who does what, draining, and a host that disappears with all it had."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from postgres import server
from program import Program
from repositories import make_repository, run_git
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
    """A host of its own as far as fleet can tell: another home, another name, the same database."""

    def __init__(self, folder: Path, name: str, queue: str, *labels: str) -> None:
        folder.mkdir()
        self.name, self.fleet = name, Program(folder)
        tests = Path(__file__).parent.parent
        self.audit = folder / "audit"
        self.audit.touch()
        self.fleet.env["PYTHONPATH"] = f"{tests}:{tests / 'workers'}"
        self.fleet.home.mkdir(0o700)
        (self.fleet.home / "runtime.toml").write_text(
            SETTINGS.format(queue=queue, coder=CODER, name=name, labels=json.dumps(labels), audit=self.audit)
        )
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start its supervisor, and wait until the others can see it."""
        with (self.fleet.user / "supervisor.out").open("ab") as log:
            self.process = subprocess.Popen(
                [*self.fleet.argv, "run"], env=self.fleet.env, cwd=self.fleet.cwd, stdout=log, stderr=log
            )
        lock = self.fleet.home / "supervisor.lock"
        mine = f'"pid": {self.process.pid},'
        wait_for(lambda: lock.exists() and mine in lock.read_text(), f"{self.name} to start", self.said)
        wait_for(lambda: self.hosts().get(self.name, {}).get("state") == "here", f"{self.name} to be seen", self.said)

    def hosts(self) -> dict[str, dict[str, Any]]:
        """What it knows of the hosts, by name."""
        return {row["name"]: row for row in json.loads(self.fleet.ok("hosts", "--json"))}

    def add(self, do: str = "ok", **wanted: list[str]) -> None:
        """Tasks that belong to no directory, by name, each with what it requires of a host."""
        rows = []
        for name, words in wanted.items():
            metadata = {"fleet.requires": json.dumps(sorted(words))} if words else {}
            rows.append({"id": f"t-{name}", "title": name, "description": f"do: {do}", "metadata": metadata})
        self.fleet.ok("bd", "import", "-", stdin="".join(json.dumps(row) + "\n" for row in rows))

    def open(self) -> list[str]:
        """The tasks that are not over."""
        return sorted(row["id"] for row in json.loads(self.fleet.ok("bd", "list", "--json")))

    def wait(self, *left: str) -> None:
        """Wait until no tasks are open but these."""
        wait_for(lambda: self.open() == sorted(left), f"only {left} to be left", self.said)

    def ran(self) -> list[str]:
        """The tasks whose agents were started here."""
        return sorted({line.split()[1] for line in self.audit.read_text().splitlines() if line.startswith("start ")})

    def said(self) -> str:
        return (self.fleet.user / "supervisor.out").read_text(errors="replace")[-3000:]

    def vanish(self) -> None:
        """Lose the supervisor and everything it started, at once."""
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
    """Makes hosts that share one database."""
    queue = server().make_database()
    made: list[Machine] = []

    def make(name: str, *labels: str, start: bool = True) -> Machine:
        made.append(Machine(tmp_path / name, name, queue, *labels))
        if start:
            made[-1].start()
        return made[-1]

    yield make
    for each in made:
        each.stop()


def test_each_host_does_what_it_offers_and_a_drained_one_nothing(machine: Callable[..., Machine]) -> None:
    one, two = machine("one", "gpu", "linux"), machine("two", "arm", "linux")
    assert {name: (row["labels"], row["this"]) for name, row in one.hosts().items()} == {
        "one": (["gpu", "linux"], True),
        "two": (["arm", "linux"], False),
    }
    one.add(
        gpu1=["gpu"], gpu2=["gpu", "linux"], arm=["arm"], pin1=["host:one"], pin2=["host:two", "linux"], tpu=["tpu"]
    )
    made = json.loads(one.fleet.ok("bd", "create", "x", "-d", "do: ok", "--host", "two", "--json"))["id"]
    one.wait("t-tpu")
    assert one.ran() == ["t-gpu1", "t-gpu2", "t-pin1"]
    assert two.ran() == sorted(["t-arm", "t-pin2", made])
    # From anywhere one sees why the last one waits, and any host can be drained.
    assert "nothing starts: no host offers tpu (1 task waits for it)" in two.fleet("tasks").err
    two.fleet.ok("hosts", "drain", "one")
    assert two.hosts()["one"]["state"] == "drained"
    two.add(late=["gpu"], free=[])
    two.wait("t-late", "t-tpu")
    assert "host one is drained (1 task waits for it)" in two.fleet("tasks").err
    assert "t-free" in two.ran()
    two.fleet.ok("hosts", "undrain", "one")
    two.wait("t-tpu")
    assert "t-late" in one.ran()


def test_what_a_host_that_disappears_had_goes_on_elsewhere(machine: Callable[..., Machine]) -> None:
    one, two = machine("one"), machine("two")
    two.fleet.ok("hosts", "drain", "two")
    two.add(f"until file={one.fleet.user / 'go'}", work=[])
    wait_for(one.ran, "its agent", one.said)
    two.fleet.ok("hosts", "undrain", "two")
    assert two.hosts()["one"]["agents"] == 1
    refused = two.fleet("hosts", "forget", "one")
    assert refused.code == 1 and "error: host one still holds t-work" in refused.err
    one.vanish()
    wait_for(lambda: two.hosts()["one"]["state"] == "gone", "the others to notice", two.said)
    assert re.search(r"one +gone +– +\d +– +– +not seen since \d", two.fleet.ok("hosts"))
    (one.fleet.user / "go").touch()
    two.wait()
    assert two.ran() == ["t-work"]
    two.add(pinned=["host:one"])
    assert re.search(r"host one was not seen since \d+.* \(1 task waits for it\)", two.fleet("tasks").err)
    # It comes back as who it was, and does what waited for it.
    one.start()
    two.wait()
    assert "t-pinned" in one.ran()
    one.stop()
    assert two.hosts()["one"]["state"] == "gone"
    assert two.fleet.ok("hosts", "forget", "one") == "one is forgotten\n"
    assert list(two.hosts()) == ["two"]


def test_whoever_only_asks_for_work_becomes_a_host_only_where_it_must(machine: Callable[..., Machine]) -> None:
    worker = machine("worker")
    laptop = machine("laptop", start=False)
    remote = laptop.fleet.user / "remote.git"
    run_git(laptop.fleet.user, "init", "--quiet", "--bare", str(remote))
    travels = make_repository(laptop.fleet.user / "travels")
    run_git(travels, "remote", "add", "origin", str(remote))
    run_git(travels, "push", "--quiet", "--set-upstream", "origin", "main")
    asked = laptop.fleet("create", "there", "-p", "do: ok", "--headless", "--no-wait", cwd=travels)
    assert asked.code == 0 and "supervisor started" not in asked.err
    assert laptop.fleet("run", "status").code == 1 and list(laptop.hosts()) == ["worker"]
    stays = make_repository(laptop.fleet.user / "stays")
    asked = laptop.fleet("create", "here", "-p", "do: ok", "--headless", "--no-wait", cwd=stays)
    assert asked.code == 0 and "supervisor started" in asked.err
    wait_for(lambda: laptop.ran() and worker.ran(), "both agents", worker.said)
    assert laptop.ran() != worker.ran() and set(laptop.hosts()) == {"laptop", "worker"}
