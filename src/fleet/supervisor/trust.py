"""Trust in repositories: the commands of the project file, and the settings and hooks that git obeys.

Each command of a project file is known by its digest, so that a branch with an older file stays trusted. Trust is
recorded in the home, where `config.load` looks, and in the database, from where it travels with a task.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.core.task import NOT_TRUSTED, TRUST_CHANGED
from fleet.git.repository import NoRepository, Repository, find_repository
from fleet.git.trust import snapshot, stamp, what_changed
from fleet.home import find_project
from fleet.settings import load, trusted
from fleet.settings.check import format_path
from fleet.settings.trusted import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fleet.home import Home
    from fleet.settings import Settings
    from fleet.store.base import Store

#: The kinds of trust records.
PROJECT, REPOSITORY = "project", "repository"
#: The kind under which the user's answers are kept: whether a coder trusts fleet's worktrees.
WORKTREES = "worktrees"
YES, NO = "yes", "no"
#: The bytes from which a trusted snapshot was made. While they are unchanged, no new snapshot is needed.
STAMP = "repository bytes"


def settings_in(
    home: Home, store: Store, directory: str, env: Mapping[str, str] | None = None, *, lenient: bool = False
) -> Settings:
    """Return the settings of a directory. First record in the home what the database has as trusted there."""
    settings = load(home, directory, env, lenient=lenient)
    if settings.untrusted and recall(home, store, directory):
        return load(home, directory, env, lenient=lenient)
    return settings


def recall(home: Home, store: Store, directory: str) -> bool:
    """Record in the home what the database has as trusted in a directory. Return True if anything is new."""
    project = find_project(directory, home)
    if project is None:
        return False
    known = trusted_digests(store, project_in(project))
    return bool(known) and trusted.record_trusted(home, project, known)


def project_in(folder: str) -> Repository:
    """Return the repository of a folder. Outside of a repository, return the folder itself as a substitute.

    Raises NotOwned.
    """
    try:
        return find_repository(folder)
    except NoRepository:
        place = trusted.place_of(folder)
        return Repository(top=place, common=place)


def untrusted_commands(settings: Settings, *, quick: bool = False) -> list[str]:
    """Return the untrusted lines of the project file. With `quick` leave out the setup commands."""
    return [line for line in settings.untrusted if not (quick and _is_command(line))]


def _is_command(line: str) -> bool:
    return line.partition(": ")[0] in {format_path(path) for path in trusted.COMMANDS}


def changed_repository(store: Store, repository: Repository) -> list[str]:
    """Return how the repository's settings and hooks differ from the record. If the list is empty, git may run.

    A repository that is used for the first time is trusted as it is.
    """
    mark = stamp(repository)
    if mark is not None and store.trust.get(STAMP, repository.common) == mark:
        return []
    now, known = snapshot(repository), known_snapshot(store, repository)
    if known is None:
        keep_snapshot(store, repository, now, by="first use")
    elif changed := what_changed(known, now):
        return changed
    if mark is not None and stamp(repository) == mark:  # unchanged while it was examined
        store.trust.set(STAMP, repository.common, mark, "fleet")
    return []


def trusted_digests(store: Store, repository: Repository) -> list[str]:
    """Return the digests of the trusted commands of a repository's project file."""
    text = store.trust.get(PROJECT, repository.common)
    found = json.loads(text) if text else []
    return found if isinstance(found, list) else []


def keep_trusted(store: Store, repository: Repository, lines: Iterable[str], *, by: str) -> None:
    """Record that these commands are trusted, in addition to the commands trusted earlier."""
    keep_digests(store, repository, map(digest, lines), by=by)


def keep_digests(store: Store, repository: Repository, digests: Iterable[str], *, by: str) -> None:
    """Record trust in commands that are known by their digests."""
    known = trusted_digests(store, repository)
    new = [found for found in digests if found not in known]
    if new:
        store.trust.set(PROJECT, repository.common, json.dumps([*known, *new]), by)


def of_remote(url: str) -> Repository:
    """Return a substitute repository for all mirrors of a remote."""
    return Repository(top=url, common=f"remote {url}")


def known_snapshot(store: Store, repository: Repository) -> dict[str, str] | None:
    """Return the trusted settings and hooks. Return None if the repository was never used."""
    text = store.trust.get(REPOSITORY, repository.common)
    found = json.loads(text) if text else None
    return found if isinstance(found, dict) else None


def keep_snapshot(store: Store, repository: Repository, now: dict[str, str], *, by: str) -> None:
    """Record that these settings and hooks are trusted."""
    # ASCII: the name of a setting may be invalid UTF-8, which a database rejects.
    if known_snapshot(store, repository) != now:
        store.trust.set(REPOSITORY, repository.common, json.dumps(now), by)


def refuse_untrusted(store: Store, repository: Repository, settings: Settings, *, quick: bool = False) -> None:
    """Raise FleetError if an agent could not start because of missing trust.

    The first use of a repository records what its git obeys.
    """
    if changed := changed_repository(store, repository):
        raise FleetError(
            f"git's settings of {repository.top} changed {TRUST_CHANGED}: {', '.join(changed[:5])}",
            hint="inspect the changes, then run `fleet trust` there",
        )
    quick = quick or settings.setup.quick
    if untrusted := untrusted_commands(settings, quick=quick):
        more = f" (and {len(untrusted) - 1} more)" if len(untrusted) > 1 else ""
        raise FleetError(
            f"the project file has commands that {NOT_TRUSTED} yet: {untrusted[0]}{more}",
            hint="run `fleet trust --show` and then `fleet trust`, or pass `--quick` to skip the setup commands",
        )
