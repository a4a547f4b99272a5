"""Where a new task may be worked on when several hosts share its queue: wherever its remote is reached, or only here.

What belongs to a repository with a remote travels: its base commit is put where other hosts find it. What belongs to a
plain directory, or to a repository that no other host can reach, stays on the host of its maker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fleet.config.trusted import digest
from fleet.core.errors import FleetError
from fleet.core.host import PIN, pin_of, required, requiring
from fleet.core.task import WORKTREE
from fleet.engine.hosting import name_here, pin_among
from fleet.engine.trusting import keep_digests, of_remote, settings_in, trusted_digests
from fleet.workspaces.repository import find_repository

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from fleet.assembly import Fleet
    from fleet.config import Settings
    from fleet.core.host import Host
    from fleet.home import Home
    from fleet.workspaces.remote import Remote
    from fleet.workspaces.repository import Repository


class Ticket(NamedTuple):
    """What a task needs to be worked on elsewhere, or what keeps it here."""

    remote: str = ""
    requires: str = ""
    notes: tuple[str, ...] = ()  # what the user should know

    @property
    def fields(self) -> dict[str, str]:
        return {"remote": self.remote, "requires": self.requires}

    def with_words(self, requires: str) -> str:
        """What a task requires that has requirements of its own besides; one that names a host goes by that."""
        words, own = required(requires) or (), required(self.requires) or ()
        named = any(word.startswith(PIN) for word in words)
        return requiring((*words, *(word for word in own if not named or not word.startswith(PIN))))


def ticket(
    fleet: Fleet, repository: Repository, commit: str, requires: str = "", *, settings: Settings | None = None
) -> Ticket:
    """How far a task travels that begins at a commit of a repository; where there is one host, nothing is said.

    What is trusted of the project's commands holds on the other hosts too.
    """
    if not fleet.store.is_shared:
        return Ticket(requires=requires)
    from fleet.workspaces.remote import remote_of

    try:
        remote = remote_of(repository)
        if remote is None:
            raise FleetError(f"{repository.top} has no remote")
        _put_there(fleet.home, repository, remote, commit)
    except FleetError as error:
        pinned = stay(fleet.home, requires, fleet.store.hosts.all())
        return Ticket(requires=pinned, notes=(f"stays on this host, {name_here(fleet.home)}: {error}",))
    if settings is not None:
        _pass_trust(fleet, repository, remote.url, settings)
    return Ticket(remote=remote.url, requires=requires)


def placed(fleet: Fleet, fields: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The fields of a task that say where it may be worked on, from those that say where it is about; and notes.

    Nothing where there is one host, or the task is about no place at all. Raises FleetError for a base that is none.
    """
    if not fleet.store.is_shared:
        return {}, ()
    place, requires = str(fields.get("repo") or fields.get("cwd") or ""), str(fields.get("requires") or "")
    if fields.get("workspace") != WORKTREE:
        return ({"requires": stay(fleet.home, requires, fleet.store.hosts.all())}, ()) if place else ({}, ())
    from fleet.actions import bases

    repository = find_repository(place)
    commit = bases.commit(fleet.home, repository, str(fields.get("base") or ""), cwd=place)
    found = ticket(
        fleet, repository, commit, requires, settings=settings_in(fleet.home, fleet.store, repository.top, {})
    )
    if not found.remote:
        return {"requires": found.requires}, found.notes
    return {"repo": repository.top, "base": commit, **found.fields}, found.notes


def stay(home: Home, requires: str, hosts: Iterable[Host] = ()) -> str:
    """What a task requires, and besides the host of this home, by those there are; one that names a host already goes
    by that."""
    return requires if pin_of(requires) else requiring((*(required(requires) or ()), pin_among(home, hosts)))


def _put_there(home: Home, repository: Repository, remote: Remote, commit: str) -> None:
    """See that a remote has a commit, by what is known of it; else put it there."""
    from fleet.workspaces.remote import ASK_SECONDS, tracked_by
    from fleet.workspaces.sending import send_base
    from fleet.workspaces.view import View

    view = View(home, repository)
    asked = ("for-each-ref", "--count=1", "--format=%(refname)", f"--contains={commit}", tracked_by(repository))
    if not view.git(*asked).strip():
        send_base(view, remote, commit, seconds=ASK_SECONDS)


def _pass_trust(fleet: Fleet, repository: Repository, url: str, settings: Settings) -> None:
    """Have other hosts trust what is trusted here: of the project file, and of the files of coders."""
    trusted = [digest(line) for line in settings.demands if line not in settings.untrusted]
    trusted += trusted_digests(fleet.store, repository)
    keep_digests(fleet.store, of_remote(url), trusted, by="its maker")
