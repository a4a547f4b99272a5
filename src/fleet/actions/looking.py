"""Views of an agent: its terminal or events, and its changes."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions import elsewhere, fetch_elsewhere
from fleet.actions.event_text import event_lines, lines_in
from fleet.assembly import terminal_screen
from fleet.core.errors import FleetError
from fleet.engine.work import Work
from fleet.home import Home
from fleet.workspaces.diffs import diff

if TYPE_CHECKING:
    from fleet.assembly import Fleet
    from fleet.core.run import Run
    from fleet.core.task import Task

MOST_BYTES = 64 * 1024 * 1024


class Seen(NamedTuple):
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


def seen(fleet: Fleet, task_id: str) -> Seen:
    task = fleet.store.tasks.get(task_id)
    runs = fleet.store.runs.of_task(task_id)
    run = runs[-1] if runs else None
    home = Home(run.home) if run and run.home else fleet.home
    return Seen(task, run, home.task(task_id))


def events(fleet: Fleet, found: Seen, count: int) -> tuple[list[str], str]:
    """Return the last events of a task's last run as lines, and a note about their source.

    Events on another host come from its supervisor, or from the last stored copy.
    """
    if found.run is None or not elsewhere.is_elsewhere(fleet, found.run.owner):
        return event_lines(f"{found.folder}/events.jsonl", count), ""
    part = fetch_elsewhere.last_events(fleet, found.run)
    name = elsewhere.name_of(fleet, found.run.owner)
    told = f"from host {name}" if not part.why else f"host {name} cannot be asked: {part.why}"
    told += f"; this is what it stored at {part.kept_at:%Y-%m-%d %H:%M:%S} UTC" if part.kept_at else ""
    return lines_in(part.data, count), told


def screen_lines(fleet: Fleet, found: Seen, count: int) -> list[str]:
    """Return the last lines of an agent's terminal, live or as saved at its end.

    Return [] if it has none on this host.
    """
    run = found.run
    if run is None or not run.session_name or elsewhere.is_elsewhere(fleet, run.owner):
        return []
    text = ""
    if found.socket is not None:
        with contextlib.suppress(FleetError):
            text = terminal_screen(found.socket, run.session_name, count)
    if not text:
        text = _read(Path(found.folder, "runs", str(run.number), "screen.txt"))
    lines = text.rstrip().splitlines()
    return lines[-count:] if count else lines


def setup_log(found: Seen) -> str:
    """Return the output of a task's setup commands, or "" if none ran."""
    folders = [each for each in Path(found.folder, "setup").glob("*") if each.name.isdigit()]
    return "".join(_read(each / "stdout") for each in sorted(folders, key=lambda each: int(each.name)))


def _read(path: Path) -> str:
    with contextlib.suppress(OSError), path.open(encoding="utf-8", errors="replace") as file:
        return file.read(MOST_BYTES)
    return ""


def difference(fleet: Fleet, task_id: str, *, stat: bool = False, names: bool = False) -> str:
    """Return the diff between a task's base and its work, including uncommitted changes. Raises FleetError."""
    space = fetch_elsewhere.workspace_here(fleet, fleet.store.tasks.get(task_id))
    if space is None:
        raise FleetError(f"{task_id} has no worktree", hint="only tasks with a branch have one.")
    work = Work(fleet.home, space)
    if space.is_gone:
        tip = work.tip
        if tip is None:
            raise FleetError(f"branch {space.branch} is gone", hint="`git for-each-ref refs/fleet` shows what is kept.")
        tree = tip
    else:
        tree = work.tree()
    return diff(work.view, space.base_commit, tree, stat=stat, names=names).decode("utf-8", "replace")
