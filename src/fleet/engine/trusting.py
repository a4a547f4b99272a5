"""What of a repository may be run: the commands of its project file, and the settings and hooks that git obeys.

A project file comes with the repository, so with anybody's. What it would have fleet run is run only after the user
looked at it; each such thing is known by its digest, so that a branch with an older file stays trusted.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from fleet.config.check import dotted
from fleet.config.text import toml_value
from fleet.workspaces.repository import Repository
from fleet.workspaces.trust import snapshot, stamp, what_changed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fleet.config import Settings
    from fleet.config.keys import Path
    from fleet.store.base import History

#: The kinds of what is on record.
PROJECT, REPOSITORY = "project", "repository"
#: The bytes that a trusted snapshot was made from, so that it need not be made again while they stay.
STAMP = "repository bytes"
COMMANDS: tuple[Path, ...] = (("setup", "commands"), ("setup", "teardown"), ("verify", "command"))
#: Settings that make a program run another one, or hand it secrets; they count for every agent, `--quick` or not.
LEVERS: tuple[Path, ...] = (("agent", "env"), ("agent", "pass_env"), ("agent", "claude_flags"))
CODER_LEVERS = ("program", "flags", "env")


def project_commands(settings: Settings, *, quick: bool = False) -> tuple[str, ...]:
    """What the project's file would have run, each named by its key; with `quick`, without the commands of setup.

    What runtime.toml, the environment or the task itself says is the user's own, and not among it.
    """
    return (*(() if quick else _commands(settings)), *_levers(settings))


def needs_trust(path: Path) -> bool:
    """Whether a project's value for a setting counts only once the user trusted it."""
    return path in (*COMMANDS, *LEVERS) or (path[0] == "coders" and path[-1] in CODER_LEVERS)


def untrusted_commands(
    history: History, repository: Repository, settings: Settings, *, quick: bool = False
) -> list[str]:
    """Those of them that the user has not trusted; none: all may be run."""
    known = trusted_digests(history, repository)
    return [line for line in project_commands(settings, quick=quick) if digest(line) not in known]


def changed_repository(history: History, repository: Repository) -> list[str]:
    """What of the repository's settings and hooks differs from what is on record, in words; none: git may be run.

    A repository that is used for the first time is taken as it is.
    """
    mark = stamp(repository)
    if mark is not None and history.trusted(STAMP, repository.common) == mark:
        return []
    now, known = snapshot(repository), known_snapshot(history, repository)
    if known is None:
        keep_snapshot(history, repository, now, by="first use")
    elif changed := what_changed(known, now):
        return changed
    if mark is not None and stamp(repository) == mark:  # nobody changed it while it was looked at
        history.trust(STAMP, repository.common, mark, "fleet")
    return []


def trusted_digests(history: History, repository: Repository) -> list[str]:
    """What was trusted of its project file."""
    text = history.trusted(PROJECT, repository.common)
    found = json.loads(text) if text else []
    return found if isinstance(found, list) else []


def keep_trusted(history: History, repository: Repository, lines: Iterable[str], *, by: str) -> None:
    """Put on record that these may be run, besides what may be already."""
    keep_digests(history, repository, map(digest, lines), by=by)


def keep_digests(history: History, repository: Repository, digests: Iterable[str], *, by: str) -> None:
    """The same of commands that are known by their digests."""
    known = trusted_digests(history, repository)
    new = [found for found in digests if found not in known]
    if new:
        history.trust(PROJECT, repository.common, json.dumps([*known, *new]), by)


def of_remote(url: str) -> Repository:
    """What stands for a repository wherever it is a mirror of this remote."""
    return Repository(top=url, common=f"remote {url}")


def known_snapshot(history: History, repository: Repository) -> dict[str, str] | None:
    """The settings and hooks that were trusted; none of a repository that was never used."""
    text = history.trusted(REPOSITORY, repository.common)
    found = json.loads(text) if text else None
    return found if isinstance(found, dict) else None


def keep_snapshot(history: History, repository: Repository, now: dict[str, str], *, by: str) -> None:
    """Put on record that these settings and hooks are all right."""
    # ASCII: the name of a setting may be no UTF-8, which a database does not take.
    if known_snapshot(history, repository) != now:
        history.trust(REPOSITORY, repository.common, json.dumps(now), by)


def digest(line: str) -> str:
    """What one of the project's commands is known by."""
    return hashlib.sha256(line.encode()).hexdigest()


def _commands(settings: Settings) -> Iterator[str]:
    for path in COMMANDS:
        if _is_projects(settings, path):
            value = getattr(getattr(settings, path[0]), path[1])
            yield from (f"{dotted(path)}: {each}" for each in (value if isinstance(value, tuple) else (value,)))


def _levers(settings: Settings) -> Iterator[str]:
    for path in LEVERS:
        yield from _lever(settings, path, getattr(getattr(settings, path[0]), path[1]))
    for name, own in settings.coders.items():
        for lever in CODER_LEVERS:
            yield from _lever(settings, ("coders", name, lever), getattr(own, lever))
    # An import string: what it names is imported into fleet itself.
    yield from _lever(settings, ("coder",), settings.coder if ":" in settings.coder else "")


def _lever(settings: Settings, path: Path, value: Any) -> Iterator[str]:
    if value and _is_projects(settings, path):
        yield f"{dotted(path)} = {toml_value(value)}"


def _is_projects(settings: Settings, path: Path) -> bool:
    origin = settings.origins.get(path)
    return origin is not None and origin.kind == PROJECT
