"""Agents that live although the database does not have their run, or has it as ended.

A restored backup leaves such agents behind: they were started after it was made. Each run's folder keeps a copy of what
the database knew of the run at its start, so that a supervisor can put the run on record again.
"""

from __future__ import annotations

import contextlib
import os
import time
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from fleet.core.jsontext import decode, encode
from fleet.core.run import Run
from fleet.core.workspace import Workspace
from fleet.engine.agent_files import AgentFiles
from fleet.launchers.lock import is_locked

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TypeVar

    from fleet.core.record import Record
    from fleet.home import Home
    from fleet.store.base import Store

    R = TypeVar("R", bound=Record)

#: The copy, in the folder of a run.
RECORD = "run.json"
LONGEST = 1 << 20
#: How long an agent that has ended may take to be gone.
LEAVING_SECONDS = 5.0
_KINDS = {"str": str, "int": int, "bool": bool, "float": float, "datetime": datetime, "None": type(None)}


class Stray(NamedTuple):
    """A live agent that the database does not have."""

    place: str  # the folder of its run
    task_id: str
    number: int
    known: Run | None  # as the database has it: ended
    run: Run | None = None  # as it was begun; none: its folder does not tell
    workspace: Workspace | None = None

    @property
    def run_id(self) -> str:
        """The id of its run."""
        return f"{self.task_id}/{self.number}"

    @property
    def launcher(self) -> str:
        """The launcher that started it."""
        begun = self.run or self.known
        return begun.launcher if begun is not None else ""

    @property
    def cwd(self) -> str:
        """The directory that it works in; empty: nobody knows."""
        begun = self.run or self.known
        return begun.workspace if begun is not None else ""


def living(home: Home) -> list[tuple[str, int]]:
    """The task and number of every run of a home in which something lives."""
    return [(task, number) for task in _names(home.tasks) for number in living_runs(home.task(task))]


def living_runs(folder: str) -> list[int]:
    """The numbers of the runs of one task's folder in which something lives."""
    found = []
    for number in _names(f"{folder}/runs"):
        with contextlib.suppress(OSError):
            if number.isdecimal() and is_locked(f"{folder}/runs/{number}"):
                found.append(int(number))
    return sorted(found)


def left_after_a_while(folder: str) -> list[int]:
    """The runs of a task's folder that live after as long as an ended agent may need to be gone."""
    give_up = time.monotonic() + LEAVING_SECONDS
    while (alive := living_runs(folder)) and time.monotonic() < give_up:
        time.sleep(0.02)
    return alive


def strays_among(home: Home, store: Store, found: Iterable[tuple[str, int]]) -> list[Stray]:
    """Those of the living whose run the database does not have as live."""
    strays = []
    for task_id, number in found:
        known = store.runs.get(f"{task_id}/{number}")
        if known is not None and known.is_live:
            continue
        run, workspace = _read_record(home, task_id, number)
        strays.append(Stray(home.run(task_id, number), task_id, number, known, run, workspace))
    return strays


def keep_record(home: Home, run: Run, workspace: Workspace | None) -> None:
    """Keep a copy of a run that begins, and of its worktree, in its folder. Raises OSError."""
    told = {"run": _plain(run), "workspace": _plain(workspace) if workspace is not None else None}
    _folder(home, run.task_id, run.number).write(RECORD, encode(told).encode("utf-8", "replace"))


def _read_record(home: Home, task_id: str, number: int) -> tuple[Run | None, Workspace | None]:
    """What the copy says; nothing where there is none, or one that no fleet wrote."""
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
    """A record of plain data, whose agent may have written it. Raises ValueError, TypeError."""
    values = {}
    for name, words in kind.__annotations__.items():
        if name not in told:
            continue
        kinds = words.split(" | ")
        value = told[name]
        if "datetime" in kinds and value is not None:
            value = datetime.fromisoformat(value)
        if type(value) not in [_KINDS[each] for each in kinds]:
            raise ValueError(f"{name} is not of its kind")
        values[name] = value
    return kind(**values)


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - paths of the home are strings
    except OSError:
        return []
