"""Looking at what a repository would have run, and saying that it may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from fleet.actions.rights import refuse_agents
from fleet.config.trusted import keep_file
from fleet.core.errors import FleetError
from fleet.engine import trusting
from fleet.home import find_project
from fleet.workspaces.repository import find_repository, is_gone
from fleet.workspaces.trust import snapshot, what_changed
from fleet.workspaces.view import View

if TYPE_CHECKING:
    from fleet.assembly import Fleet
    from fleet.config import Settings
    from fleet.core.task import Caller
    from fleet.home import Home
    from fleet.workspaces.repository import Repository


class Line(NamedTuple):
    """One thing that a project file would have run."""

    text: str
    is_trusted: bool


class Standing(NamedTuple):
    """What is trusted of the repository around a directory."""

    repository: Repository
    file: str
    """Where its project's settings are; empty where it has none."""
    lines: list[Line]
    snapshot: dict[str, str]
    is_known: bool
    """Whether its settings and hooks are on record."""
    changes: list[str]
    """What of them is different now, in words."""
    digest: str
    """What the bytes of the project file are known by."""

    def view(self) -> dict[str, Any]:
        """The same as JSON has it."""
        return {
            "repository": self.repository.top,
            "file": self.file or None,
            "commands": [{"what": line.text, "trusted": line.is_trusted} for line in self.lines],
            "known": self.is_known,
            "changed": self.changes,
        }


def standing(fleet: Fleet, cwd: str) -> Standing:
    """What is trusted here, and what is not. Changes nothing. Raises NoRepository, BadInput."""
    settings, repository = trusting.settings_in(fleet.home, fleet.history, cwd, {}), _around(fleet.home, cwd)
    lines = [Line(text, text not in settings.untrusted) for text in settings.demands]
    if is_gone(repository.common):  # a folder outside of git
        return Standing(repository, settings.project_file, lines, {}, True, [], settings.project_digest)
    known, now = trusting.known_snapshot(fleet.history, repository), snapshot(repository)
    changes = what_changed(known, now) if known is not None else []
    return Standing(repository, settings.project_file, lines, now, known is not None, changes, settings.project_digest)


def refuse_untrusted(fleet: Fleet, repository: Repository, settings: Settings, *, quick: bool = False) -> None:
    """Refuse what no agent could be started with. The first use of a repository records what its git obeys."""
    if changed := trusting.changed_repository(fleet.history, repository):
        raise FleetError(
            f"git's settings of {repository.top} changed since they were trusted: {', '.join(changed[:5])}",
            hint="look at them; `fleet trust` there accepts them.",
        )
    quick = quick or settings.setup.quick
    if untrusted := trusting.untrusted_commands(settings, quick=quick):
        more = f" (and {len(untrusted) - 1} more)" if len(untrusted) > 1 else ""
        raise FleetError(
            f"the project file has commands that you have not trusted yet: {untrusted[0]}{more}",
            hint="`fleet trust --show` shows them, `fleet trust` accepts them; `--quick` goes without setup commands.",
        )


def trust(fleet: Fleet, cwd: str, found: Standing, *, by: str, caller: Caller | None = None) -> None:
    """Put on record that all that was found in a directory is all right, and nothing that changed since."""
    refuse_agents(caller, "trust a repository")
    with fleet.queue.atomic():
        trusting.keep_trusted(fleet.history, found.repository, (line.text for line in found.lines), by=by)
        if not is_gone(found.repository.common):
            trusting.keep_snapshot(fleet.history, found.repository, found.snapshot, by=by)
            View(fleet.home, found.repository).adopt()
    if found.lines:
        keep_file(fleet.home, found.digest)
    trusting.recall(fleet.home, fleet.history, cwd)


def _around(home: Home, cwd: str) -> Repository:
    """The repository around a directory, or what stands for a project outside of git. Raises NoRepository."""
    project = find_project(cwd, home)
    return trusting.project_in(project) if project is not None else find_repository(cwd)
