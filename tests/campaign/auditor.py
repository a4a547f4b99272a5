"""Checks that two agents of one task never worked together, and that no agent lived on without its shim.

The checks read notes of agents and /proc, and nothing of fleet. Notes are exact: an agent that takes a step is not
frozen. Samples of /proc also show agents that take no steps.
"""

import os
import threading
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

LOOK_SECONDS = 0.03
#: A process created a moment ago may become another program with another environment.
YOUNG_SECONDS = 2.0
TICKS = os.sysconf("SC_CLK_TCK")
#: States of inactive processes: stopped or dead.
STANDING = frozenset("TtZXx")
DEAD = frozenset("ZXx")
#: How long a process may survive its shim, because the process that kills it needs time.
ORPHAN_SECONDS = 1.5
#: In the command line of every shim.
SHIM = b"fleet.agents.shim"


class Note(NamedTuple):
    """One line recorded by an agent."""

    what: str
    task: str
    run: str
    at: float
    more: str


class Known(NamedTuple):
    """Facts about a process that never change."""

    task: str = ""
    run: str = ""
    is_shim: bool = False


class Seen(NamedTuple):
    """A process as one sample shows it."""

    pid: int
    began: str  # together with the pid, this identifies a process forever
    parent: int
    state: str
    known: Known


def notes_in(files: list[Path]) -> list[Note]:
    """Return what agents recorded, in the order of the machine's clock."""
    found = []
    for file in files:
        for line in file.read_text().splitlines() if file.exists() else []:
            what, task, run, at, more = line.split()
            found.append(Note(what, task, run, float(at), more))
    return sorted(found, key=lambda note: note.at)


def overlaps(notes: list[Note]) -> list[str]:
    """Describe tasks of which one run did something after a later one had started."""
    spans: dict[str, dict[str, list[float]]] = defaultdict(dict)
    for note in notes:
        spans[note.task].setdefault(note.run, []).append(note.at)
    found = []
    for runs in spans.values():
        for (one, early), (other, late) in pairwise(sorted(runs.items(), key=lambda item: item[1][0])):
            if early[-1] > late[0]:
                found.append(f"{one} was at work {early[-1] - late[0]:.3f} s after {other} had begun")
    return found


class Sampler(threading.Thread):
    """A thread that repeatedly samples every process below /proc that belongs to a home and a run."""

    def __init__(self, home: Path) -> None:
        super().__init__(name="auditor", daemon=True)
        self._mark = f"FLEET_HOME={home}".encode()
        self._known: dict[tuple[int, str], Known] = {}
        self._suspects: set[tuple[str, str, str]] = set()
        self._orphans: dict[tuple[int, str], float] = {}  # since when
        self._ending = threading.Event()
        self.samples, self.seen, self.frozen, self.orphans = 0, 0, 0, 0
        self.at_work = 0  # agents that lived at the last sample
        self.found: list[str] = []

    def run(self) -> None:
        """Take samples until `end` is called."""
        while not self._ending.wait(LOOK_SECONDS):
            self.look()

    def end(self) -> None:
        """Stop sampling."""
        self._ending.set()
        self.join()

    def look(self) -> None:
        """Take one sample."""
        self.samples += 1
        processes = self._processes()
        agents = [each for each in processes.values() if each.known.run]
        self.seen += len(agents)
        self.at_work = len({each.known.run for each in agents if each.state not in DEAD})
        self.frozen += sum(each.state == "T" for each in agents)
        self._look_for_pairs(agents)
        self._look_for_orphans(agents, processes)

    def _look_for_pairs(self, agents: list[Seen]) -> None:
        """Count only pairs seen twice in a row, because a process may just be dying."""
        moving: dict[str, set[str]] = defaultdict(set)
        for each in agents:
            if each.state not in STANDING:
                moving[each.known.task].add(each.known.run)
        pairs = {(task, *pair) for task, runs in moving.items() for pair in pairwise(sorted(runs))}
        self.found += [f"{one} and {other} of {task} moved together" for task, one, other in pairs & self._suspects]
        self._suspects = pairs

    def _look_for_orphans(self, agents: list[Seen], processes: dict[int, Seen]) -> None:
        """Frozen processes count too, because they may be resumed."""
        now = time.monotonic()
        alone = [each for each in agents if each.state not in DEAD and not _is_below_a_shim(each, processes)]
        before = self._orphans
        self._orphans = {(each.pid, each.began): before.get((each.pid, each.began), now) for each in alone}
        self.orphans += len(self._orphans.keys() - before.keys())
        for each in alone:
            since = self._orphans[each.pid, each.began]
            if now - since > ORPHAN_SECONDS:
                self._orphans[each.pid, each.began] = float("inf")  # reported once
                self.found.append(f"{each.known.run} has a process {each.pid} ({each.state}) without a shim")

    def _processes(self) -> dict[int, Seen]:
        found, alive, now = {}, {}, time.clock_gettime(time.CLOCK_BOOTTIME)
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                key = (int(entry.name), fields[19])  # the kernel reuses a pid alone
                is_young = now - int(fields[19]) / TICKS < YOUNG_SECONDS
                alive[key] = self._known[key] if key in self._known and not is_young else self._read(entry)
            except (OSError, IndexError):
                continue
            found[key[0]] = Seen(*key, int(fields[1]), fields[0], alive[key])
        self._known = alive
        return found

    def _read(self, entry: Path) -> Known:
        words = (entry / "environ").read_bytes().split(b"\0")
        if self._mark not in words:
            return Known(is_shim=SHIM in (entry / "cmdline").read_bytes())
        told = dict(word.split(b"=", 1) for word in words if b"=" in word)
        return Known(told.get(b"FLEET_TASK_ID", b"").decode(), told.get(b"FLEET_RUN_ID", b"").decode())


def _is_below_a_shim(process: Seen, processes: dict[int, Seen]) -> bool:
    """Return True if an ancestor is a shim. A process with an unseen ancestor may be new."""
    for _ in range(len(processes)):
        above = processes.get(process.parent)
        if above is None:
            return process.parent > 1  # process 1 may be hidden from this process
        if above.known.is_shim:
            return True
        process = above
    return False
