"""Placement of a new task: directory, coder and host, from flags, the environment and the run that creates it."""

from __future__ import annotations

import os

from fleet.cli.bd.fields import known_coder
from fleet.core import checks
from fleet.core.errors import BadInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fleet.cli.bd.session import Session


def placement(session: Session) -> dict[str, str]:
    """Return the fields for a task's directory, coder, model, workspace and host. Raises BadInput."""
    arguments, env = session.arguments, os.environ
    found = {"cwd": _cwd(arguments.text("cwd")), "path": env.get("PATH", "")}
    caller = session.caller()
    if caller is not None:
        found["made_by"] = caller.task_id
    coder = arguments.text("coder") or env.get("FLEET_CODER", "")
    if arguments.has("coder") and not coder:
        raise BadInput("--coder needs a name", hint="leave it out to use the default coder")
    if coder:
        found["coder"] = known_coder(session, coder)
    found["model"] = checks.model(arguments.text("model") or env.get("FLEET_MODEL", ""))
    found["workspace"] = arguments.text("workspace")
    if found["workspace"] not in ("", "directory", "worktree"):
        raise BadInput(f"unknown workspace {found['workspace']!r}", hint="directory or worktree")
    if arguments.has("requires") or arguments.has("host"):
        found["requires"] = requirements(session, "")
    return found | _travelling(session, found) if session.store.is_shared else found


def requirements(session: Session, text: str) -> str:
    """Return what a task requires of a host: `text` as changed by flags."""
    from fleet.core import host

    arguments = session.arguments
    labels = list(filter(None, arguments.many("requires"))) if arguments.has("requires") else None
    return host.change_requirements(text, labels, arguments.text("host") if arguments.has("host") else None)


def _travelling(session: Session, found: dict[str, str]) -> dict[str, str]:
    """Return the fields that let other hosts of the shared queue run the task."""
    from fleet.actions.tasks.placement import placed  # uses git, so it is imported only for shared queues

    fields, notes = placed(session.fleet, found)
    for note in notes:
        session.warn(f"the task {note}")
    return fields


def _cwd(given: str) -> str:
    try:
        cwd = os.path.abspath(os.path.expanduser(given)) if given else os.getcwd()  # noqa: PTH100, PTH109, PTH111
    except FileNotFoundError:
        raise BadInput(
            "the current directory no longer exists", hint="change to one that does, or give --cwd"
        ) from None
    if given and not os.path.isdir(cwd):  # noqa: PTH112
        raise BadInput(f"--cwd {given} is not a directory", hint="name a directory that exists")
    try:
        cwd.encode()
    except UnicodeEncodeError:
        raise BadInput("the path of this directory is not valid UTF-8", hint="give another one with --cwd") from None
    return checks.line("cwd", cwd, longest=4096)
