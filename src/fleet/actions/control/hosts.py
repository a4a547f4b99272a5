"""Hosts that share this queue: list, drain, undrain and forget them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.tasks.rights import refuse_agents
from fleet.core.errors import IllegalMove, UsageError, closest
from fleet.core.filter import Filter
from fleet.core.host import PIN, format_requirement, is_of_home, pin_of
from fleet.core.task import Status
from fleet.supervisor.host import is_seen, name_here, offers, owner_of, pin_here, settings_here
from fleet.supervisor.lock import holder
from fleet.wake import wake

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from fleet.assembly import Fleet
    from fleet.core.host import Host
    from fleet.core.task import Caller, Task


class HostState:
    """States of a host."""

    HERE = "here"
    DRAINING = "draining"  # takes no more work, but still holds tasks
    DRAINED = "drained"
    GONE = "gone"  # its supervisor has stopped, or has not reported for the length of a claim


class HostView(NamedTuple):
    """A host with its state and claims."""

    host: Host
    state: str
    held: list[str]  # IDs of its claimed tasks
    is_this: bool  # True for the host of this home

    @property
    def takes_work(self) -> bool:
        """Return True if the host takes tasks."""
        return self.state == HostState.HERE

    def view(self) -> dict[str, Any]:
        host = self.host
        return {
            "id": host.id,
            "name": host.name,
            "state": self.state,
            "this": self.is_this,
            "slots": host.slots,
            "agents": len(self.held),
            "load": host.load,
            "labels": list(host.shown_labels),
            "version": host.version,
            "address": host.address,
            "seen_at": host.seen_at.isoformat(timespec="seconds"),
            "drained_at": host.drained_at.isoformat(timespec="seconds") if host.drained_at else None,
        }


def hosts(fleet: Fleet) -> list[HostView]:
    """Return all known hosts that were not forgotten, by name."""
    with fleet.store.snapshot():
        now, known = fleet.store.now(), fleet.store.hosts.all()
        claims = _claims(fleet) if known else {}
    if not known:
        return []
    settings = settings_here(fleet.home)
    this, seconds = owner_of(fleet.home, settings), settings.supervisor.claim_seconds
    is_served = holder(fleet.home) is not None
    found = []
    for host in known:
        held, is_this = claims.get(host.id, []), host.id == this
        seen = is_seen(host, now, seconds) and (is_served or not is_this)
        found.append(HostView(host, _state(host, seen, held), held, is_this))
    return found


def is_served(fleet: Fleet) -> bool:
    """Return True if at least one host takes work."""
    return any(each.takes_work for each in hosts(fleet))


def is_wanted(fleet: Fleet) -> bool:
    """Return True if a waiting task requires this host."""
    ours = offers(settings_here(fleet.home), pin_here(fleet.home))
    waiting = Filter(requires=True, statuses=(Status.OPEN, Status.DEFERRED))
    return any(pin_of(task.requires) in ours for task in fleet.store.tasks.find(waiting, sort="id"))


def bound_to(fleet: Fleet, task: Task) -> str:
    """Return the name of the only host that can run a task, or "" if any host can.

    A host is required explicitly or through the task's directory. In a shared queue, a directory-bound task requires
    its host explicitly.
    """
    if fleet.store.is_shared or pin_of(task.requires) or not (task.repo or task.cwd):
        return "".join(in_names(fleet, [pin_of(task.requires)])).removeprefix(PIN)
    return name_here(fleet.home)


def in_names(fleet: Fleet, words: Sequence[str]) -> list[str]:
    """Return a task's requirements with current host names."""
    known = fleet.store.hosts.all() if any(map(is_of_home, words)) else []
    return [format_requirement(word, known) for word in words]


def drain(fleet: Fleet, name: str, *, caller: Caller | None = None) -> HostView:
    """Stop a host from taking more work. Its current tasks continue. Raises UsageError if the host is unknown."""
    refuse_agents(caller, "drain hosts")
    return _set(fleet, name, drained=True)


def undrain(fleet: Fleet, name: str, *, caller: Caller | None = None) -> HostView:
    """Let a host take work again. Raises UsageError if the host is unknown."""
    refuse_agents(caller, "undrain hosts")
    return _set(fleet, name, drained=False)


def forget(fleet: Fleet, name: str, *, caller: Caller | None = None) -> Host:
    """Remove a host from the list.

    Raises IllegalMove if the host is at work or holds tasks. Raises UsageError if the host is unknown.
    """
    refuse_agents(caller, "forget hosts")
    with fleet.store.atomic():
        found = _meant(hosts(fleet), name)
        if found.held:
            several = f"{', '.join(found.held[:5])}{' …' if len(found.held) > 5 else ''}"
            hint = "wait until its claims expire; then other hosts take them"
            raise IllegalMove(f"host {name} still holds {several}", hint=hint)
        if found.state != HostState.GONE:
            hint = "run `fleet run stop` on that host first"
            raise IllegalMove(f"host {name} is running and would register again at once", hint=hint)
        fleet.store.hosts.forget(found.host.id)
    return found.host


def _claims(fleet: Fleet) -> dict[str, list[str]]:
    """Return the tasks that supervisors hold, by owner. A task whose run asked a question is blocked but still held."""
    live = tuple(run.task_id for run in fleet.store.runs.live())
    tasks = fleet.store.tasks.find(Filter(statuses=(Status.IN_PROGRESS,)), sort="id")
    tasks += fleet.store.tasks.find(Filter(ids=live, not_statuses=(Status.IN_PROGRESS,)), sort="id") if live else []
    found: dict[str, list[str]] = {}
    for task in tasks:
        if task.is_supervised:
            found.setdefault(task.claim_owner, []).append(task.id)
    return found


def _state(host: Host, seen: bool, held: Sequence[str]) -> str:
    if not seen:
        return HostState.GONE
    if host.drained_at is None:
        return HostState.HERE
    return HostState.DRAINING if held else HostState.DRAINED


def _set(fleet: Fleet, name: str, *, drained: bool) -> HostView:
    with fleet.store.atomic():
        found = _meant(hosts(fleet), name)
        if (found.host.drained_at is not None) is not drained:
            fleet.store.hosts.drain(found.host.id, fleet.store.now() if drained else None)
        again = _meant(hosts(fleet), found.host.id)
    wake(fleet.home)
    return again


def _meant(known: Sequence[HostView], name: str) -> HostView:
    found = [seen for seen in known if seen.host.id == name] or [seen for seen in known if seen.host.name == name]
    if len(found) > 1:
        several = ", ".join(seen.host.id for seen in found)
        raise UsageError(f"{len(found)} hosts are called {name!r}", hint=f"pass the id of one: {several}")
    if not found:
        names = sorted({seen.host.name for seen in known})
        close = closest(name, names, most=5) or names[:5]
        hint = f"there are: {', '.join(close)}{' …' if len(names) > len(close) else ''}" if names else ""
        raise UsageError(f"no host {name!r}", hint=hint or "run `fleet run` to register this machine as a host")
    return found[0]
