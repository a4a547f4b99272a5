"""Live agents whose run is missing in the database or recorded as ended.

A restored backup leaves such agents behind: they started after the backup was made. Each run's folder keeps a copy of
the run's record from its start, so that a supervisor can record the run again.
"""

from __future__ import annotations

import contextlib
import os
import time
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from fleet.agents.lock import is_locked
from fleet.core.jsontext import decode, encode
from fleet.core.run import Run
from fleet.core.workspace import Workspace
from fleet.supervisor.agent_files import AgentFiles

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TypeVar

    from fleet.core.record import Record
    from fleet.home import Home
    from fleet.store.base import Store

    R = TypeVar("R", bound=Record)

#: Name of the copy in the folder of a run.
RECORD = "run.json"
LONGEST = 1 << 20
#: How long the processes of an ended agent may take to disappear.
LEAVING_SECONDS = 5.0
_KINDS = {"str": str, "int": int, "bool": bool, "float": float, "datetime": datetime, "None": type(None)}


class Stray(NamedTuple):
    """A live agent without a live run in the database."""

    place: str  # the folder of its run
    task_id: str
    number: int
    known: Run | None  # the run in the database, which has ended
    run: Run | None = None  # the run as it began; None if its folder has no valid copy
    workspace: Workspace | None = None

    @property
    def run_id(self) -> str:
        return f"{self.task_id}/{self.number}"

    @property
    def launcher(self) -> str:
        """Return the name of the launcher that started it, or "" if unknown."""
        begun = self.run or self.known
        return begun.launcher if begun is not None else ""

    @property
    def cwd(self) -> str:
        """Return the directory where it works. Return "" if unknown."""
        begun = self.run or self.known
        return begun.workspace if begun is not None else ""


def living(home: Home) -> list[tuple[str, int]]:
    """Return task and number of every run of a home that has a live process."""
    return [(task, number) for task in _names(home.tasks) for number in living_runs(home.task(task))]


def living_runs(folder: str) -> list[int]:
    """Return the numbers of the runs in a task's folder that have a live process."""
    found = []
    for number in _names(f"{folder}/runs"):
        with contextlib.suppress(OSError):
            if number.isdecimal() and is_locked(f"{folder}/runs/{number}"):
                found.append(int(number))
    return sorted(found)


def left_after_a_while(folder: str) -> list[int]:
    """Return the runs in a task's folder that still live after the time that an ended agent may need to disappear."""
    give_up = time.monotonic() + LEAVING_SECONDS
    while (alive := living_runs(folder)) and time.monotonic() < give_up:
        time.sleep(0.02)
    return alive


def strays_among(home: Home, store: Store, found: Iterable[tuple[str, int]]) -> list[Stray]:
    """Return the live runs in `found` that the database does not have as live."""
    strays = []
    for task_id, number in found:
        known = store.runs.get(f"{task_id}/{number}")
        if known is not None and known.is_live:
            continue
        run, workspace = _read_record(home, task_id, number)
        strays.append(Stray(home.run(task_id, number), task_id, number, known, run, workspace))
    return strays


def keep_record(home: Home, run: Run, workspace: Workspace | None) -> None:
    """Keep a copy of a run that begins, and of its worktree, in the run's folder. Raises OSError."""
    told = {"run": _plain(run), "workspace": _plain(workspace) if workspace is not None else None}
    _folder(home, run.task_id, run.number).write(RECORD, encode(told).encode("utf-8", "replace"))


def _read_record(home: Home, task_id: str, number: int) -> tuple[Run | None, Workspace | None]:
    """Return the run and worktree in the copy. Return None for both if the copy is missing or invalid."""
    try:
        data = _folder(home, task_id, number).read(RECORD, LONGEST) or b""
        told = decode(data.decode())
        run = _made(Run, told["run"])
        workspace = _made(Workspace, told["workspace"]) if told["workspace"] else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None, None
    if (run.task_id, run.number) != (task_id, number) or (workspace and workspace.task_id != task_id):
        return None, None
    return run, workspace


def _folder(home: Home, task_id: str, number: int) -> AgentFiles:
    return AgentFiles(home.tasks, task_id, "runs", str(number))


def _plain(record: Record) -> dict[str, Any]:
    found = record.as_dict()
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in found.items()}


def _made(kind: type[R], told: dict[str, Any]) -> R:
    """Return a record from plain data that an agent may have written. Raises ValueError, TypeError."""
    values = {}
    for name, words in kind.__annotations__.items():
        if name not in told:
            continue
        kinds = words.split(" | ")
        value = told[name]
        if "datetime" in kinds and value is not None:
            value = datetime.fromisoformat(value)
        if type(value) not in [_KINDS[each] for each in kinds]:
            raise ValueError(f"{name} has the wrong type")
        values[name] = value
    return kind(**values)


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - the paths of the home are strings
    except OSError:
        return []
