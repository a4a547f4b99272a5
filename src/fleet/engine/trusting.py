"""What of a repository may be run: the commands of its project file, and the settings and hooks that git obeys.

Each command of a project file is known by its digest, so that a branch with an older file stays trusted. What is
trusted is on record in the home, where `config.load` looks, and in the database, from where it travels with a task.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from fleet.config import load, trusted
from fleet.config.check import dotted
from fleet.config.trusted import digest
from fleet.core.errors import FleetError
from fleet.home import find_project
from fleet.workspaces.repository import NoRepository, Repository, find_repository
from fleet.workspaces.trust import snapshot, stamp, what_changed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fleet.config import Settings
    from fleet.home import Home
    from fleet.store.base import Store

#: The kinds of what is on record.
PROJECT, REPOSITORY = "project", "repository"
#: The bytes that a trusted snapshot was made from, so that it need not be made again while they stay.
STAMP = "repository bytes"


def settings_in(
    home: Home, store: Store, directory: str, env: Mapping[str, str] | None = None, *, lenient: bool = False
) -> Settings:
    """What holds in a directory. What the database knows to be trusted there is put on record in the home first."""
    settings = load(home, directory, env, lenient=lenient)
    if settings.untrusted and recall(home, store, directory):
        return load(home, directory, env, lenient=lenient)
    return settings


def recall(home: Home, store: Store, directory: str) -> bool:
    """Put on record in the home what the database knows to be trusted in a directory. Return True if any is new."""
    project = find_project(directory, home)
    if project is None:
        return False
    known = trusted_digests(store, project_in(project))
    return bool(known) and trusted.keep_trusted(home, project, known)


def project_in(folder: str) -> Repository:
    """Return what stands for the project in a folder: its repository, or, outside of any, the folder itself.

    Raises NotOwned.
    """
    try:
        return find_repository(folder)
    except NoRepository:
        place = trusted.place_of(folder)
        return Repository(top=place, common=place)


def untrusted_commands(settings: Settings, *, quick: bool = False) -> list[str]:
    """What the project file would do and the user has not trusted; with `quick`, without the commands of setup."""
    return [line for line in settings.untrusted if not (quick and _is_command(line))]


def _is_command(line: str) -> bool:
    return line.partition(": ")[0] in {dotted(path) for path in trusted.COMMANDS}


def changed_repository(store: Store, repository: Repository) -> list[str]:
    """What of the repository's settings and hooks differs from what is on record, in words; none: git may be run.

    A repository that is used for the first time is taken as it is.
    """
    mark = stamp(repository)
    if mark is not None and store.trust.get(STAMP, repository.common) == mark:
        return []
    now, known = snapshot(repository), known_snapshot(store, repository)
    if known is None:
        keep_snapshot(store, repository, now, by="first use")
    elif changed := what_changed(known, now):
        return changed
    if mark is not None and stamp(repository) == mark:  # nobody changed it while it was looked at
        store.trust.set(STAMP, repository.common, mark, "fleet")
    return []


def trusted_digests(store: Store, repository: Repository) -> list[str]:
    """What was trusted of its project file."""
    text = store.trust.get(PROJECT, repository.common)
    found = json.loads(text) if text else []
    return found if isinstance(found, list) else []


def keep_trusted(store: Store, repository: Repository, lines: Iterable[str], *, by: str) -> None:
    """Put on record that these may be run, besides what may be already."""
    keep_digests(store, repository, map(digest, lines), by=by)


def keep_digests(store: Store, repository: Repository, digests: Iterable[str], *, by: str) -> None:
    """The same of commands that are known by their digests."""
    known = trusted_digests(store, repository)
    new = [found for found in digests if found not in known]
    if new:
        store.trust.set(PROJECT, repository.common, json.dumps([*known, *new]), by)


def of_remote(url: str) -> Repository:
    """What stands for a repository wherever it is a mirror of this remote."""
    return Repository(top=url, common=f"remote {url}")


def known_snapshot(store: Store, repository: Repository) -> dict[str, str] | None:
    """The settings and hooks that were trusted; none of a repository that was never used."""
    text = store.trust.get(REPOSITORY, repository.common)
    found = json.loads(text) if text else None
    return found if isinstance(found, dict) else None


def keep_snapshot(store: Store, repository: Repository, now: dict[str, str], *, by: str) -> None:
    """Put on record that these settings and hooks are all right."""
    # ASCII: the name of a setting may be no UTF-8, which a database does not take.
    if known_snapshot(store, repository) != now:
        store.trust.set(REPOSITORY, repository.common, json.dumps(now), by)


def refuse_untrusted(store: Store, repository: Repository, settings: Settings, *, quick: bool = False) -> None:
    """Refuse what no agent could be started with. The first use of a repository records what its git obeys."""
    if changed := changed_repository(store, repository):
        raise FleetError(
            f"git's settings of {repository.top} changed since they were trusted: {', '.join(changed[:5])}",
            hint="look at them; `fleet trust` there accepts them.",
        )
    quick = quick or settings.setup.quick
    if untrusted := untrusted_commands(settings, quick=quick):
        more = f" (and {len(untrusted) - 1} more)" if len(untrusted) > 1 else ""
        raise FleetError(
            f"the project file has commands that you have not trusted yet: {untrusted[0]}{more}",
            hint="`fleet trust --show` shows them, `fleet trust` accepts them; `--quick` goes without setup commands.",
        )
