"""Views of an agent: its terminal or events, and its changes."""

from __future__ import annotations

import contextlib
import json
import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.control import fetch, other_hosts
from fleet.assembly import terminal_screen
from fleet.core.errors import FleetError
from fleet.git.diffs import diff
from fleet.home import Home
from fleet.supervisor.run.work import Work

if TYPE_CHECKING:
    from typing import Any

    from fleet.assembly import Fleet
    from fleet.core.run import Run
    from fleet.core.task import Task


#: The most that is read at once. A single event is bounded.
MOST_BYTES = 8 * 1024 * 1024
LONGEST = 2_000
SIGNS = {"tool_use": "→", "tool_result": "←", "error": "!", "rate_limit": "!", "session_ended": "="}
#: Events without information for a person.
SILENT = ("usage", "thinking", "session_started")


def event_lines(path: str, count: int) -> list[str]:
    """Return the last `count` lines, or with 0 all lines within the read limit.

    Return [] if the file cannot be read.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            file.seek(0, os.SEEK_END)
            start = max(0, file.tell() - MOST_BYTES)
            file.seek(start)
            data = file.read(MOST_BYTES)
    except OSError:
        return []
    if start:
        data = data[data.find(b"\n") + 1 :]
    return lines_in(data, count)


def lines_in(data: bytes, count: int) -> list[str]:
    """Return the last `count` lines of raw events, or with 0 all of them."""
    lines = [line for raw in data.splitlines() for line in _lines(raw)]
    return lines[-count:] if count else lines


def _lines(raw: bytes) -> list[str]:
    try:
        event = json.loads(raw)
        return _shown(event) if isinstance(event, dict) else []
    except (ValueError, RecursionError):
        return []


def _shown(event: dict[str, Any]) -> list[str]:
    kind = str(event.get("kind") or "")
    text = str(event.get("text") or "")
    if kind in SILENT or not (text or kind == "tool_use"):
        return []
    if kind == "tool_use":
        text = f"{event.get('tool_name') or 'a tool'} {_input(event.get('data'))}".rstrip()
    words = text[:LONGEST].splitlines() or [""]
    sign = SIGNS.get(kind, " ")
    return [f"{_time(event.get('ts'))} {sign} {words[0]}", *(f"{'':8} {sign} {line}" for line in words[1:])]


def _input(data: object) -> str:
    if not isinstance(data, dict):
        return ""
    values = data.values() if len(data) == 1 else [f"{key}={value}" for key, value in data.items()]
    return " ".join(str(value) for value in values)[:300]


def _time(text: object) -> str:
    try:
        return f"{datetime.fromisoformat(str(text)).astimezone():%H:%M:%S}"
    except ValueError:
        return f"{'':8}"


MOST_SCREEN_BYTES = 64 * 1024 * 1024


class AgentView(NamedTuple):
    """A task with its last run and the folder of its output."""

    task: Task
    run: Run | None
    folder: str  # the task's folder

    @property
    def socket(self) -> str | None:
        """Return the tmux socket of the live terminal, or None."""
        if self.run is None or not self.run.is_live or not self.run.session_name:
            return None
        return self.run.launcher.partition(":")[2]


def seen(fleet: Fleet, task_id: str) -> AgentView:
    task = fleet.store.tasks.get(task_id)
    runs = fleet.store.runs.of_task(task_id)
    run = runs[-1] if runs else None
    home = Home(run.home) if run and run.home else fleet.home
    return AgentView(task, run, home.task(task_id))


def events(fleet: Fleet, found: AgentView, count: int) -> tuple[list[str], str]:
    """Return the last events of a task's last run as lines, and a note about their source.

    Events on another host come from its supervisor, or from the last stored copy.
    """
    if found.run is None or not other_hosts.is_elsewhere(fleet, found.run.owner):
        return event_lines(f"{found.folder}/events.jsonl", count), ""
    part = fetch.last_events(fleet, found.run)
    name = other_hosts.name_of(fleet, found.run.owner)
    told = f"from host {name}" if not part.why else f"host {name} cannot be asked: {part.why}"
    told += f"; this is what it stored at {part.kept_at:%Y-%m-%d %H:%M:%S} UTC" if part.kept_at else ""
    return lines_in(part.data, count), told


def screen_lines(fleet: Fleet, found: AgentView, count: int) -> list[str]:
    """Return the last lines of an agent's terminal, live or as saved at its end.

    Return [] if it has none on this host.
    """
    run = found.run
    if run is None or not run.session_name or other_hosts.is_elsewhere(fleet, run.owner):
        return []
    text = ""
    if found.socket is not None:
        with contextlib.suppress(FleetError):
            text = terminal_screen(found.socket, run.session_name, count)
    if not text:
        text = _read(Path(found.folder, "runs", str(run.number), "screen.txt"))
    lines = text.rstrip().splitlines()
    return lines[-count:] if count else lines


def setup_log(found: AgentView) -> str:
    """Return the output of a task's setup commands, or "" if none ran."""
    folders = [each for each in Path(found.folder, "setup").glob("*") if each.name.isdigit()]
    return "".join(_read(each / "stdout") for each in sorted(folders, key=lambda each: int(each.name)))


def _read(path: Path) -> str:
    with contextlib.suppress(OSError), path.open(encoding="utf-8", errors="replace") as file:
        return file.read(MOST_SCREEN_BYTES)
    return ""


def difference(fleet: Fleet, task_id: str, *, stat: bool = False, names: bool = False) -> str:
    """Return the diff between a task's base and its work, including uncommitted changes. Raises FleetError."""
    space = fetch.workspace_here(fleet, fleet.store.tasks.get(task_id))
    if space is None:
        raise FleetError(f"{task_id} has no worktree", hint="pass a task with a branch")
    work = Work(fleet.home, space)
    if space.is_gone:
        tip = work.tip
        if tip is None:
            raise FleetError(
                f"branch {space.branch} is gone", hint="run `git for-each-ref refs/fleet` to list the saved refs"
            )
        tree = tip
    else:
        tree = work.tree()
    return diff(work.view, space.base_commit, tree, stat=stat, names=names).decode("utf-8", "replace")
