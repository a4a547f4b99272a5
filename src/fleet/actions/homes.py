"""Making and mending the home."""

from collections.abc import Callable
from typing import NamedTuple

from fleet.actions.rights import refuse_agents
from fleet.assembly import open_fleet
from fleet.config.keys import HOME, Permissions
from fleet.config.load import load
from fleet.config.save import create, reset, save
from fleet.core.clock import now
from fleet.core.task import Caller
from fleet.home import Home, write_programs


class Made(NamedTuple):
    """What `init` did, one line each, and where permissions stand."""

    changes: list[str]
    permissions: Permissions | None


def init(
    home: Home,
    *,
    force: bool = False,
    permissions: Permissions | None = None,
    ask: Callable[[], Permissions] | None = None,
    caller: Caller | None = None,
) -> Made:
    """Make what is missing of a home, and record the permissions given or asked for. Raises HomeRefused, BadInput."""
    if force or permissions or ask:
        refuse_agents(caller, "change settings")
    changes = _make(home)
    if force and (copy := reset(home.settings, HOME)):
        changes.append(f"wrote the default settings; the old ones are in {copy}")
    settings = load(home, env={})
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
    """Make the home where there is none yet. Whether it had to be made."""
    home.check()
    if home.exists:
        return False
    _make(home)
    return True


def _make(home: Home) -> list[str]:
    changes = []
    if home.make():
        changes.append("made its folders, private to you")
    if not home.exists:
        changes.append("made the database")
    with open_fleet(home, make=True):  # also where a kill left a file and no more
        pass
    if create(home.settings, HOME):
        changes.append("wrote runtime.toml")
    if write_programs(home):
        changes.append("wrote bin/bd and bin/fleet")
    return changes


def _record(home: Home, permissions: Permissions) -> None:
    agreed = now().replace(microsecond=0) if permissions == "skip" else None
    save(home.settings, HOME, {("permissions",): permissions, ("consent", "skip_permissions_at"): agreed})
