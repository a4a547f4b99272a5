"""Work and runs of other hosts, seen from this one: a branch is brought from the remote, events are asked for."""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING, NamedTuple

from fleet.core.errors import FleetError
from fleet.core.jsontext import encode
from fleet.core.workspace import NOT_SENT, SENT_TO, STAYS, TO_GO, Wish
from fleet.engine.host_wire import (
    LONGEST_LINE,
    MOST,
    SECONDS,
    Garbled,
    Question,
    answer_proof,
    hosts_key,
    is_proof,
    line,
    read_line,
)
from fleet.engine.hosting import is_seen, owner_of, settings_here
from fleet.workspaces import mirror
from fleet.workspaces.remote import shown
from fleet.workspaces.repository import NoRepository, NotOwned, find_repository
from fleet.workspaces.view import View

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from fleet.assembly import Fleet
    from fleet.core.host import Host
    from fleet.core.run import Run
    from fleet.core.task import Task
    from fleet.core.workspace import Workspace

#: So much of the events is asked for at once: what anybody looks at.
LAST = 256 * 1024


class HostAway(FleetError):
    """Another host does not answer."""


class Part(NamedTuple):
    """Events of a run of another host."""

    data: bytes
    kept_at: datetime | None = None  # none: its supervisor said so just now
    why: str = ""  # and why it was not asked


def is_elsewhere(fleet: Fleet, owner: str) -> bool:
    """Whether somebody's claims are those of another host."""
    return fleet.queue.is_shared and bool(owner) and owner != owner_of(fleet.home, settings_here(fleet.home))


def here(fleet: Fleet, spaces: Iterable[Workspace]) -> list[Workspace]:
    """Those workspaces that are on the disk of this host."""
    if not fleet.queue.is_shared:
        return list(spaces)
    own = owner_of(fleet.home, settings_here(fleet.home))
    return [space for space in spaces if space.lies_on(own)]


def host_of(fleet: Fleet, owner: str) -> Host | None:
    """The host whose claims these are."""
    return next((host for host in fleet.history.hosts() if host.id == owner), None)


def name_of(fleet: Fleet, owner: str) -> str:
    """What people call that host."""
    host = host_of(fleet, owner)
    return host.name if host is not None else owner


def last_events(fleet: Fleet, run: Run) -> Part:
    """The last events of a run of another host: from its supervisor, else what it last stored."""
    host = host_of(fleet, run.owner)
    why = "it does not listen ([host] listen)" if host is not None else "nobody knows its host"
    if host is not None and host.address:
        try:
            return Part(ask(host.address, hosts_key(fleet.queue), run.id))
        except HostAway as error:
            why = str(error)
    kept = fleet.history.tail(run.id)
    if kept is None:
        return Part(b"", None, why)
    return Part(kept[0].encode(), kept[1], why)


def elsewhere_events(fleet: Fleet, task_id: str, what: str) -> str | None:
    """The last events of a task whose last run is another host's; none where it is this one's.

    Raises FleetError for any other part of its record, which only that host has.
    """
    runs = fleet.history.runs(task_id) if fleet.queue.is_shared else []
    if not runs or not is_elsewhere(fleet, runs[-1].owner):
        return None
    if what != "events":
        name = name_of(fleet, runs[-1].owner)
        raise FleetError(f"the {what} of {task_id} lies on host {name}", hint=f"`fleet task {task_id} {what}` there.")
    return last_events(fleet, runs[-1]).data.decode("utf-8", "replace")


def ask(address: str, key: str, run_id: str, *, offset: int = -LAST, seconds: float = SECONDS) -> bytes:
    """The events of a run of the host that answers at an address. Raises HostAway."""
    name, _, port = address.rpartition(":")
    try:
        with socket.create_connection((name.strip("[]"), int(port)), timeout=seconds) as link:
            link.settimeout(seconds)
            with link.makefile("rb") as heard:
                challenge = str(read_line(heard.readline(LONGEST_LINE)).get("challenge") or "")
                question = Question(run=run_id, offset=offset, most=MOST, nonce=os.urandom(16).hex())
                said = {**question.as_dict(), "proof": question.proof(key, challenge)}
                link.sendall(line(said))
                answer = read_line(heard.readline(LONGEST_LINE))
                size, next_offset = answer.get("size"), answer.get("next")
                if type(size) is not int or type(next_offset) is not int or not 0 <= size <= MOST:
                    raise Garbled("not an answer")
                body = heard.read(size)
    except (OSError, ValueError, Garbled, json.JSONDecodeError) as error:
        raise HostAway(f"{address} does not answer: {error}") from error
    if not is_proof(answer.get("proof"), answer_proof(key, challenge, question.nonce, next_offset, body)):
        raise HostAway(f"{address} does not prove that it is a host of this queue")
    return body


def workspace_here(fleet: Fleet, task: Task) -> Workspace | None:
    """The workspace of a task as this host can look at it; the branch of one elsewhere is brought from the remote.

    Raises FleetError where that cannot be.
    """
    space = fleet.history.workspace(task.id)
    if space is None or not space.remote or not is_elsewhere(fleet, space.host):
        return space
    try:
        repository = find_repository(task.repo) if os.path.isdir(task.repo) else None  # noqa: PTH112
    except (NoRepository, NotOwned):
        repository = None
    repository = repository or mirror.fetch_mirror(fleet.home, space.remote, space.base_commit)
    tip = mirror.bring(fleet.home, repository, space.remote, space.branch)
    if tip is None:
        raise FleetError(
            f"branch {space.branch} is not at {shown(space.remote)} yet: {name_of(fleet, space.host)} works on it",
            hint=f"`fleet logs {task.id}` shows what it does.",
        )
    if View(fleet.home, repository).resolve(space.base_commit) == [None]:
        raise FleetError(
            f"commit {space.base_commit[:12]}, at which it began, is not here", hint="`git fetch` brings it."
        )
    mirror.catch_up(fleet.home, repository, space.branch, tip, space.base_commit)
    gone = space.removed_at or fleet.queue.now()
    return space.replace(repo=repository.top, common=repository.common, path="", removing_at=gone, removed_at=gone)


def whereabouts(fleet: Fleet, task: Task) -> str:
    """Whether the work of a task that travels has come to its remote, in words; empty where there is nothing to say."""
    space = fleet.history.workspace(task.id) if task.remote else None
    if space is None:
        return ""
    told, name = space.made, name_of(fleet, space.host)
    if why := told.get(NOT_SENT):
        return f"not yet, from host {name}: {why}"
    return f"{told[SENT_TO]}, from host {name}" if told.get(SENT_TO) else f"not yet: it is on host {name}"


def ask_to_go(fleet: Fleet, space: Workspace, *, with_branch: bool, without_ignored: bool) -> tuple[str, str]:
    """Have the host of a worktree save and remove it: when it will, in words, and why it did not when last asked so.

    Call it in a transaction, with what is on record.
    """
    host, name = host_of(fleet, space.host), name_of(fleet, space.host)
    seconds = settings_here(fleet.home).supervisor.claim_seconds
    is_back = host is not None and is_seen(host, fleet.queue.now(), seconds)
    if space.is_mirrored:
        return f"host {name} removes its worktree {'' if is_back else 'when it is back, '}once its branch is pushed", ""
    epoch = fleet.queue.get(space.task_id).epoch
    wish = Wish(epoch=epoch, with_branch=with_branch, without_ignored=without_ignored)
    refused = space.made.get(STAYS) or {}
    words = {**space.made, TO_GO: wish.as_dict(), STAYS: None}
    fleet.history.keep_workspace(space.replace(notes=encode(words)))
    later = f"host {name} saves what only its worktree holds and removes it {'soon' if is_back else 'when it is back'}"
    why = str(refused.get("why") or "") if refused.get("wish") == wish.as_dict() else ""
    return later, f"host {name} could not remove it: {why}" if why else ""


def refuse_elsewhere(fleet: Fleet, run: Run | None, doing: str) -> None:
    """Raise FleetError where a run's agent is on another host, and only there something can be done."""
    if run is not None and is_elsewhere(fleet, run.owner):
        name = name_of(fleet, run.owner)
        raise FleetError(f"its agent is on host {name}", hint=f"`fleet {doing} {run.task_id}` there.")
