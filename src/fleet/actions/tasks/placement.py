"""The placement of new tasks on hosts that share a queue: every host that reaches the remote, or only this host.

Tasks of a repository with a remote can run elsewhere: their base commit is pushed to where other hosts find it. Tasks
of a plain directory, or of a repository that no other host can reach, stay on the host that made them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fleet.core.errors import FleetError
from fleet.core.host import PIN, encode_requirements, parse_requirements, pin_of
from fleet.core.task import WORKTREE
from fleet.git.repository import find_repository
from fleet.settings.trusted import digest
from fleet.supervisor.host import name_here, pin_among
from fleet.supervisor.trust import keep_digests, of_remote, settings_in, trusted_digests

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from fleet.assembly import Fleet
    from fleet.core.host import Host
    from fleet.git.remote import Remote
    from fleet.git.repository import Repository
    from fleet.home import Home
    from fleet.settings import Settings


class Ticket(NamedTuple):
    """The remote and requirements of a task that can run on other hosts, or its pin to this host."""

    remote: str = ""
    requires: str = ""
    notes: tuple[str, ...] = ()  # what the user should know

    @property
    def fields(self) -> dict[str, str]:
        return {"remote": self.remote, "requires": self.requires}

    def with_words(self, requires: str) -> str:
        """Return these requirements together with the ticket's own. If they pin a host, the ticket's pin is dropped."""
        words, own = parse_requirements(requires) or (), parse_requirements(self.requires) or ()
        named = any(word.startswith(PIN) for word in words)
        return encode_requirements((*words, *(word for word in own if not named or not word.startswith(PIN))))


def ticket(
    fleet: Fleet, repository: Repository, commit: str, requires: str = "", *, settings: Settings | None = None
) -> Ticket:
    """Decide where a task that starts at a commit may run. With a single host, add nothing.

    The other hosts also trust those of the project's commands that are trusted here.
    """
    if not fleet.store.is_shared:
        return Ticket(requires=requires)
    from fleet.git.remote import remote_of

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
    """Return the fields that say where a task may run, derived from the place it is about, and notes.

    Both are empty for a single host or a task without a place. Raises FleetError for an invalid base.
    """
    if not fleet.store.is_shared:
        return {}, ()
    place, requires = str(fields.get("repo") or fields.get("cwd") or ""), str(fields.get("requires") or "")
    if fields.get("workspace") != WORKTREE:
        return ({"requires": stay(fleet.home, requires, fleet.store.hosts.all())}, ()) if place else ({}, ())
    from fleet.actions.tasks import branch_base

    repository = find_repository(place)
    commit = branch_base.commit(fleet.home, repository, str(fields.get("base") or ""), cwd=place)
    found = ticket(
        fleet, repository, commit, requires, settings=settings_in(fleet.home, fleet.store, repository.top, {})
    )
    if not found.remote:
        return {"requires": found.requires}, found.notes
    return {"repo": repository.top, "base": commit, **found.fields}, found.notes


def stay(home: Home, requires: str, hosts: Iterable[Host] = ()) -> str:
    """Return a task's requirements with a pin to this home's host, unless they already pin a host."""
    return (
        requires
        if pin_of(requires)
        else encode_requirements((*(parse_requirements(requires) or ()), pin_among(home, hosts)))
    )


def _put_there(home: Home, repository: Repository, remote: Remote, commit: str) -> None:
    """Push a commit to a remote, unless the remote-tracking branches show that the remote has it."""
    from fleet.git.remote import ASK_SECONDS, tracked_by
    from fleet.git.send import send_base
    from fleet.git.view import View

    view = View(home, repository)
    asked = ("for-each-ref", "--count=1", "--format=%(refname)", f"--contains={commit}", tracked_by(repository))
    if not view.git(*asked).strip():
        send_base(view, remote, commit, seconds=ASK_SECONDS)


def _pass_trust(fleet: Fleet, repository: Repository, url: str, settings: Settings) -> None:
    """Make other hosts trust what is trusted here: commands of the project file, and files of coders."""
    trusted = [digest(line) for line in settings.demands if line not in settings.untrusted]
    trusted += trusted_digests(fleet.store, repository)
    keep_digests(fleet.store, of_remote(url), trusted, by="its maker")
