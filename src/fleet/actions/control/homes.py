"""Creation and repair of the home."""

from collections.abc import Callable
from typing import NamedTuple

from fleet.actions.tasks.rights import refuse_agents
from fleet.assembly import open_fleet, refuse_foreign
from fleet.core.clock import now
from fleet.core.task import Caller
from fleet.home import Home, write_programs
from fleet.settings.keys import HOME, Permissions
from fleet.settings.load import load
from fleet.settings.queue import BEADS, POSTGRES, SQLITE, kind_of

CREATED_DATABASE = "created the database"
NAMES = {SQLITE: "the home itself", BEADS: "beads", POSTGRES: "PostgreSQL"}


class Made(NamedTuple):
    """The changes of `init`, one line each, and the permissions in effect."""

    changes: list[str]
    permissions: Permissions | None


def init(
    home: Home,
    *,
    force: bool = False,
    permissions: Permissions | None = None,
    ask: Callable[[], Permissions] | None = None,
    caller: Caller | None = None,
    queue: str | None = None,
) -> Made:
    """Create the missing parts of a home and record permissions. Raises HomeRefused and BadInput.

    Permissions come from the argument or from `ask`.
    A `queue` is recorded as the place of the tasks after it could be opened.
    """
    if force or permissions or ask or queue:
        refuse_agents(caller, "change settings")
    from fleet.settings.save import reset

    changes = _use(home, queue) if queue else []
    changes += _make(home)
    if force and (copy := reset(home.settings, HOME)):
        changes.append(f"wrote the default settings; the old ones are in {copy}")
    settings = load(home, env={}, lenient=True)
    if permissions is None and settings.permissions is None and ask is not None:
        permissions = ask()
    if permissions is None:
        return Made(changes, settings.permissions)
    agreed = settings.consent.skip_permissions_at
    if settings.permissions != permissions or (permissions == "skip") != (agreed is not None):
        _record(home, permissions)
        changes.append(f"recorded permissions = {permissions}")
    return Made(changes, permissions)


def ensure(home: Home) -> bool:
    """Create the home if it does not exist. Return True if it was created."""
    home.check()
    refuse_foreign(home)
    if home.exists:
        return False
    _make(home)
    return True


def _make(home: Home) -> list[str]:
    from fleet.settings.save import create

    refuse_foreign(home)
    changes = []
    if home.make():
        changes.append("created its folders, private to you")
    if not home.exists:
        changes.append(CREATED_DATABASE)
    with open_fleet(home, make=True):  # also repairs a file left by a killed process
        pass
    if create(home.settings, HOME):
        changes.append("wrote runtime.toml")
    if write_programs(home):
        changes.append("wrote bin/bd and bin/fleet")
    return changes


def _use(home: Home, queue: str) -> list[str]:
    from fleet.settings.save import save

    with open_fleet(home, make=True, queue=queue):
        pass
    if not save(home.settings, HOME, {("queue",): queue}):
        return []
    return [f"recorded that tasks are kept in {NAMES[kind_of(queue)]}"]


def _record(home: Home, permissions: Permissions) -> None:
    from fleet.settings.save import save

    agreed = now().replace(microsecond=0) if permissions == "skip" else None
    save(home.settings, HOME, {("permissions",): permissions, ("consent", "skip_permissions_at"): agreed})
    load(home, env={}, lenient=True)  # also stores these settings as the last valid ones
