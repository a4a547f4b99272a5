"""Transfer from other hosts: a branch from the remote, and events from the host's supervisor."""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.control.other_hosts import host_of, is_elsewhere, name_of
from fleet.core.errors import FleetError
from fleet.git import mirror
from fleet.git.remote import shown
from fleet.git.repository import NoRepository, NotOwned, find_repository
from fleet.git.view import View
from fleet.hosts.log_server import (
    LONGEST_LINE,
    MOST,
    SECONDS,
    LogRequest,
    ProtocolError,
    answer_proof,
    hosts_key,
    is_proof,
    line,
    read_line,
)

if TYPE_CHECKING:
    from datetime import datetime

    from fleet.assembly import Fleet
    from fleet.core.run import Run
    from fleet.core.task import Task
    from fleet.core.workspace import Workspace

#: Number of bytes of events requested at once.
LAST = 256 * 1024


class HostAway(FleetError):
    """A host that does not answer."""


class Part(NamedTuple):
    """Events of a run on another host."""

    data: bytes
    kept_at: datetime | None = None  # None if the host's supervisor answered just now
    why: str = ""  # why the supervisor was not asked, or did not answer


def last_events(fleet: Fleet, run: Run) -> Part:
    """Return the last events of a run on another host: from its supervisor, else from the stored copy."""
    host = host_of(fleet, run.owner)
    why = "it does not listen ([host] listen)" if host is not None else "its host is unknown"
    if host is not None and host.address:
        try:
            return Part(ask(host.address, hosts_key(fleet.store), run.id))
        except HostAway as error:
            why = str(error)
    kept = fleet.store.tails.get(run.id)
    if kept is None:
        return Part(b"", None, why)
    return Part(kept[0].encode(), kept[1], why)


def elsewhere_events(fleet: Fleet, task_id: str, what: str) -> str | None:
    """Return the last events of a task whose last run is on another host. Return None if it is on this host.

    Raises FleetError for any other part of the record, because only the other host has it.
    """
    runs = fleet.store.runs.of_task(task_id) if fleet.store.is_shared else []
    if not runs or not is_elsewhere(fleet, runs[-1].owner):
        return None
    if what != "events":
        name = name_of(fleet, runs[-1].owner)
        raise FleetError(
            f"the {what} of {task_id} is on host {name}", hint=f"run `fleet task {task_id} {what}` on that host"
        )
    return last_events(fleet, runs[-1]).data.decode("utf-8", "replace")


def ask(address: str, key: str, run_id: str, *, offset: int = -LAST, seconds: float = SECONDS) -> bytes:
    """Return events of a run from the host at an address. Raises HostAway."""
    name, _, port = address.rpartition(":")
    try:
        with socket.create_connection((name.strip("[]"), int(port)), timeout=seconds) as link:
            link.settimeout(seconds)
            with link.makefile("rb") as heard:
                challenge = str(read_line(heard.readline(LONGEST_LINE)).get("challenge") or "")
                request = LogRequest(run=run_id, offset=offset, most=MOST, nonce=os.urandom(16).hex())
                said = {**request.as_dict(), "proof": request.proof(key, challenge)}
                link.sendall(line(said))
                answer = read_line(heard.readline(LONGEST_LINE))
                size, next_offset = answer.get("size"), answer.get("next")
                if type(size) is not int or type(next_offset) is not int or not 0 <= size <= MOST:
                    raise ProtocolError("not an answer")
                body = heard.read(size)
    except (OSError, ValueError, ProtocolError, json.JSONDecodeError) as error:
        raise HostAway(f"{address} does not answer: {error}") from error
    if not is_proof(answer.get("proof"), answer_proof(key, challenge, request.nonce, next_offset, body)):
        raise HostAway(f"{address} does not prove that it is a host of this queue")
    return body


def workspace_here(fleet: Fleet, task: Task) -> Workspace | None:
    """Return a task's workspace. If the workspace is on another host, fetch its branch from the remote.

    Raises FleetError if the branch or its start commit is not available.
    """
    space = fleet.store.workspaces.get(task.id)
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
            f"branch {space.branch} is not on {shown(space.remote)} yet: host {name_of(fleet, space.host)} works on it",
            hint=f"run `fleet logs {task.id}` to show what it does",
        )
    if View(fleet.home, repository).resolve(space.base_commit) == [None]:
        raise FleetError(f"its base commit {space.base_commit[:12]} is not here", hint="run `git fetch` to get it")
    mirror.catch_up(fleet.home, repository, space.branch, tip, space.base_commit)
    gone = space.removed_at or fleet.store.now()
    return space.replace(repo=repository.top, common=repository.common, path="", removing_at=gone, removed_at=gone)
