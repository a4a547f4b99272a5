"""Whether a coder's program can be found, and in whose PATH it is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet import coders
from fleet.config import program_for
from fleet.engine.single import holder
from fleet.files import find_program

if TYPE_CHECKING:
    from fleet.coders.base import Coder
    from fleet.config import Settings
    from fleet.home import Home

NOT_INSTALLED = "is not installed"
PATH_OF_SUPERVISOR = "supervisor's PATH"
#: Seconds after which another task checks whether a missing program exists.
NOT_INSTALLED_SECONDS = 60.0


def program_of(coder: Coder, settings: Settings) -> str:
    """Return the program that starts a coder. Return "" if the coder needs none."""
    return program_for(settings, coder.name) or coder.program


def not_installed(name: str, settings: Settings, *, home: Home | None = None) -> str:
    """Return why a coder's program cannot be started from here. Return "" if it can.

    With `home` the PATH of the home's running supervisor is searched, if one runs.
    """
    program = program_of(coders.load(name, settings), settings)
    path = supervisor_path(home) if home is not None else None
    if not program or find_program(program, path):
        return ""
    return f"no program {program!r} is on the {'PATH' if path is None else PATH_OF_SUPERVISOR}"


def supervisor_path(home: Home) -> str | None:
    """Return the PATH of the home's supervisor; None if no supervisor runs."""
    path = (holder(home) or {}).get("path")
    return path if isinstance(path, str) else None
