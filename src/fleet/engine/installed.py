"""Whether a coder's program is there."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from fleet import coders
from fleet.config import program_for

if TYPE_CHECKING:
    from fleet.config import Settings


def not_installed(name: str, settings: Settings) -> str:
    """Why a coder's program cannot be started from here; empty when it can."""
    coder = coders.load(name, settings)
    program = program_for(settings, coder.name) or coder.program
    return "" if not program or shutil.which(program) else f"no program {program!r} is on the PATH"
