"""Workflow files before they run: read, checked against the known coders, and written from a template."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fleet.coders import known
from fleet.config import load
from fleet.core.errors import BadInput, FleetError
from fleet.workflows import templates
from fleet.workflows.checking import Known
from fleet.workflows.planning import plan_from_data, plan_from_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from fleet.config import Settings
    from fleet.core.workflow import Plan
    from fleet.home import Home


def plan_of(home: Home, path: str, *, cwd: str, env: Mapping[str, str]) -> Plan:
    """Return the plan in a workflow file.

    Raises BadWorkflow with every fault, and BadInput if the file is not a workflow file.
    """
    return plan_from_file(path, known=known_in(load(home, cwd, env)))


def plan_in_data(home: Home, data: dict[str, Any], *, cwd: str, env: Mapping[str, str]) -> Plan:
    """Return the plan in plain data, as a caller of a tool passes it. Raises BadWorkflow with every fault."""
    settings = load(home, cwd if os.path.isdir(cwd) else None, env)  # noqa: PTH112
    return plan_from_data(data, name="workflow", known=known_in(settings))


def known_in(settings: Settings) -> Known:
    return Known(knows_coders(settings), knows_accounts(settings))


def knows_accounts(settings: Settings) -> Callable[[str, str], bool]:
    """Return a predicate: True if a coder has an account of this name, or any coder if none is given.

    It is always True for a queue shared by hosts, because the accounts of the other hosts are unknown.
    """
    is_shared = (settings.queue or "").startswith("postgres") or bool(settings.queue_command)

    def knows(coder: str, name: str) -> bool:
        return is_shared or any(each.name == name and coder in ("", each.coder) for each in settings.accounts)

    return knows


def knows_coders(settings: Settings) -> Callable[[str], bool]:
    """Return a predicate: True if a name is a coder here: built in, described by the settings, or an import string."""

    def knows(name: str) -> bool:
        try:
            known(name, described=settings.coders)
        except BadInput:
            return False
        return True

    return knows


def write_template(name: str, path: str) -> None:
    """Write a template to a new file. Raises BadInput if the template is unknown or the file exists, and FleetError."""
    data = templates.text(name).encode()
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError as error:
        raise BadInput(f"{path} is there already", hint="name another file with --out.") from error
    except OSError as error:
        raise FleetError(f"cannot write {path}: {error.strerror}") from error
    with open(handle, "wb") as file:  # noqa: PTH123 - not a path
        file.write(data)
