"""Whether two agents of one task were ever at work together. Reads notes of agents and /proc; nothing of fleet.

Notes are exact: an agent that takes a step is not frozen. Samples of /proc see those too that take none.
"""

import os
import threading
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

LOOK_SECONDS = 0.03
#: A process that was made a moment ago may become another program, with another environment.
YOUNG_SECONDS = 2.0
TICKS = os.sysconf("SC_CLK_TCK")
#: What does nothing: stopped, dead.
STANDING = frozenset("TtZXx")


class Note(NamedTuple):
    """One line of an agent."""

    what: str
    task: str
    run: str
    at: float
    more: str


def notes_in(files: list[Path]) -> list[Note]:
    """What agents noted, in the order of the machine's clock."""
    found = []
    for file in files:
        for line in file.read_text().splitlines() if file.exists() else []:
            what, task, run, at, more = line.split()
            found.append(Note(what, task, run, float(at), more))
    return sorted(found, key=lambda note: note.at)


def overlaps(notes: list[Note]) -> list[str]:
    """The tasks of which one run did something after a later one had begun."""
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
    """Looks again and again at every process below /proc that carries the mark of a home and of a run."""

    def __init__(self, home: Path) -> None:
        super().__init__(name="auditor", daemon=True)
        self._mark = f"FLEET_HOME={home}".encode()
        self._known: dict[tuple[int, str], tuple[str, str] | None] = {}
        self._suspects: set[tuple[str, str, str]] = set()
        self._ending = threading.Event()
        self.samples, self.seen, self.frozen = 0, 0, 0
        self.found: list[str] = []

    def run(self) -> None:
        """Look until told to end."""
        while not self._ending.wait(LOOK_SECONDS):
            self.look()

    def end(self) -> None:
        """Look no more."""
        self._ending.set()
        self.join()

    def look(self) -> None:
        """One sample; what is seen twice in a row is no process that is just dying."""
        self.samples += 1
        moving: dict[str, set[str]] = defaultdict(set)
        for task, run, state in self._agents():
            self.seen += 1
            self.frozen += state == "T"
            if state not in STANDING:
                moving[task].add(run)
        pairs = {(task, *pair) for task, runs in moving.items() for pair in pairwise(sorted(runs))}
        self.found += [f"{one} and {other} of {task} moved together" for task, one, other in pairs & self._suspects]
        self._suspects = pairs

    def _agents(self) -> list[tuple[str, str, str]]:
        found, alive, now = [], {}, time.clock_gettime(time.CLOCK_BOOTTIME)
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                key = (int(entry.name), fields[19])  # a number alone is used again
                is_young = now - int(fields[19]) / TICKS < YOUNG_SECONDS
                alive[key] = self._known[key] if key in self._known and not is_young else self._whose(entry)
            except (OSError, IndexError):
                continue
            if whose := alive[key]:
                found.append((*whose, fields[0]))
        self._known = alive
        return found

    def _whose(self, entry: Path) -> tuple[str, str] | None:
        """The task and the run of a process, if it is an agent's."""
        words = (entry / "environ").read_bytes().split(b"\0")
        if self._mark not in words:
            return None
        told = dict(word.split(b"=", 1) for word in words if b"=" in word)
        task, run = told.get(b"FLEET_TASK_ID", b""), told.get(b"FLEET_RUN_ID", b"")
        return (task.decode(), run.decode()) if run else None
