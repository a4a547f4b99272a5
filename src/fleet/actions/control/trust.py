"""Showing what a repository would run, and trusting it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

from fleet import coders
from fleet.actions.tasks.rights import refuse_agents
from fleet.core.errors import FleetError
from fleet.git.repository import find_repository, is_gone
from fleet.git.trust import snapshot, what_changed
from fleet.git.view import View
from fleet.home import find_project
from fleet.settings.trusted import digest, list_known_digests, record_trusted_files
from fleet.supervisor import coder_files
from fleet.supervisor import trust as trusting

if TYPE_CHECKING:
    from fleet.assembly import Fleet
    from fleet.core.task import Caller
    from fleet.git.repository import Repository
    from fleet.home import Home
    from fleet.settings import Settings
    from fleet.supervisor.coder_files import CoderFile


class ProjectCommand(NamedTuple):
    """A command that a project file would run."""

    text: str
    is_trusted: bool


class FileLine(NamedTuple):
    """A file from which coders run commands."""

    file: CoderFile
    coders: tuple[str, ...]
    is_trusted: bool

    def view(self) -> dict[str, Any]:
        found = self.file
        told = {"path": found.path, "coders": list(self.coders), "sha256": found.sha256, "settings": list(found.does)}
        return told | {"trusted": self.is_trusted}


class TrustStatus(NamedTuple):
    """The trust status of the repository around a directory."""

    repository: Repository
    file: str
    """The path of the project's settings. Empty if it has none."""
    lines: list[ProjectCommand]
    snapshot: dict[str, str]
    is_known: bool
    """True if git's settings and hooks are recorded."""
    changes: list[str]
    """Descriptions of the changes to the recorded settings and hooks."""
    digest: str
    """The digest of the project file's bytes."""
    files: list[FileLine]
    """Files of the project from which coders run commands."""

    @property
    def mark(self) -> str:
        """Return the digest of everything that would run. It is the same in every clone."""
        lines = [line.text for line in self.lines] + [line.file.line for line in self.files]
        return digest("\n".join(sorted(lines)))

    def view(self) -> dict[str, Any]:
        return {
            "repository": self.repository.top,
            "file": self.file or None,
            "commands": [{"what": line.text, "trusted": line.is_trusted} for line in self.lines],
            "files": [line.view() for line in self.files],
            "known": self.is_known,
            "changed": self.changes,
            "digest": self.mark,
        }


def standing(fleet: Fleet, cwd: str) -> TrustStatus:
    """Return what is trusted here and what is not, without changing anything. Raises NoRepository, BadInput."""
    settings = trusting.settings_in(fleet.home, fleet.store, cwd, {})
    files = _files(fleet, cwd, settings)
    repository = _around(fleet.home, cwd, is_any=bool(files))
    lines = [ProjectCommand(text, text not in settings.untrusted) for text in settings.demands]
    found = TrustStatus(repository, settings.project_file, lines, {}, True, [], settings.project_digest, files)
    if is_gone(repository.common):  # a folder outside of git
        return found
    known, now = trusting.known_snapshot(fleet.store, repository), snapshot(repository)
    changes = what_changed(known, now) if known is not None else []
    return found._replace(snapshot=now, is_known=known is not None, changes=changes)


def _files(fleet: Fleet, cwd: str, settings: Settings) -> list[FileLine]:
    """Return the files in and above a directory from which any usable coder runs commands."""
    readers: dict[str, list[str]] = {}
    for name in dict.fromkeys((*coders.CODERS, *settings.coders, settings.coder)):
        with contextlib.suppress(FleetError):  # an unavailable coder runs nothing
            for pattern in coder_files.patterns_of(coders.load(name, settings), settings):
                readers.setdefault(pattern, []).append(name)
    trusted = list_known_digests(fleet.home)
    found = coder_files.files_for(cwd, list(readers))
    return [FileLine(each, tuple(readers[each.pattern]), digest(each.line) in trusted) for each in found]


def trust(fleet: Fleet, cwd: str, found: TrustStatus, *, by: str, caller: Caller | None = None) -> None:
    """Record trust in everything that was found in a directory, but not in later changes."""
    refuse_agents(caller, "trust a repository")
    with fleet.store.atomic():
        files = [line.file.line for line in found.files]
        trusting.keep_trusted(fleet.store, found.repository, [*(line.text for line in found.lines), *files], by=by)
        if not is_gone(found.repository.common):
            trusting.keep_snapshot(fleet.store, found.repository, found.snapshot, by=by)
            View(fleet.home, found.repository).adopt()
    record_trusted_files(fleet.home, [*([found.digest] if found.lines else []), *map(digest, files)])
    trusting.recall(fleet.home, fleet.store, cwd)


def refuse_unexpected(found: TrustStatus, expected: str) -> None:
    """Raise FleetError unless this is the digest of what would be trusted, as printed by `fleet trust --show`."""
    if found.mark != expected.strip().lower():
        raise FleetError(
            f"the digest is {found.mark}, not the expected {expected}",
            hint="run `fleet trust --show` and inspect the changes before you pass the new digest",
        )


def _around(home: Home, cwd: str, *, is_any: bool) -> Repository:
    """Return the repository around a directory, or what represents a project or folder outside of git.

    Raises NoRepository, NotOwned.
    """
    project = find_project(cwd, home)
    return trusting.project_in(project or cwd) if project is not None or is_any else find_repository(cwd)
