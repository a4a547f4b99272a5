"""Migration of ai-fleet's settings file: the values that a project takes over, and the reasons for the rest."""

import os
import shlex
from typing import Any, NamedTuple

from fleet.coders import known as known_coder
from fleet.config.check import check, dotted
from fleet.config.keys import PROJECT, UNUSED, Path
from fleet.config.load import read_table
from fleet.config.save import read_bytes
from fleet.core.errors import BadInput, FleetError
from fleet.files import atomic_write
from fleet.home import LEGACY_SETTINGS

CODER: Path = ("coder",)
FLAGS: Path = ("agent", "claude_flags")
ROOT: Path = ("project", "worktree_root")
SKIP = "--dangerously-skip-permissions"
#: Default folder of ai-fleet's worktrees of all repositories.
USUAL_ROOT = "~/.ai_fleet/worktrees"


class Taken(NamedTuple):
    """The values that a project takes over, notes about the others, and the path of the old file."""

    values: dict[Path, Any]
    notes: list[str]
    path: str


def read(top: str) -> Taken:
    """Read the old file for the repository at `top`. Raises BadInput if the file is missing or invalid."""
    path = os.path.expanduser(LEGACY_SETTINGS)  # noqa: PTH111
    if not os.path.exists(path):  # noqa: PTH110
        hint = "leave --migrate-legacy out: `fleet init` makes a project without it."
        raise BadInput(f"there is no {path} to migrate", hint=hint)
    table = read_table(path)
    good: dict[Path, Any] = {}
    wrong = []
    for name, value in table.items():
        checked = check({name: value}, PROJECT)
        good |= checked.values
        wrong += [f"not taken over: {problem.message}" for problem in checked.problems]
    notes = [_unused(name, table[name], top) for name in UNUSED if name in table]
    return Taken(good, [*notes, *wrong, *_adapt(good)], path)


def keep(path: str) -> str:
    """Copy the file to a backup next to it and return the backup's path.

    An existing backup with the same text is reused.
    """
    data, copy, number = read_bytes(path) or b"", f"{path}.backup", 1
    while (old := read_bytes(copy)) is not None and old != data:
        number += 1
        copy = f"{path}.backup-{number}"
    if old is None:
        atomic_write(copy, data)
    return copy


def _unused(name: str, value: Any, top: str) -> str:
    if name != "repo_root":
        return f"not taken over: {name} has no effect in fleet"
    said = os.path.realpath(os.path.expanduser(str(value)))  # noqa: PTH111
    other = "" if said == os.path.realpath(top) else f"; it named another repository, {value}"
    return f"not taken over: repo_root, since a project is the repository you are in{other}"


def _adapt(values: dict[Path, Any]) -> list[str]:
    """Convert the old values to fleet's meaning, in place. Return notes about the values that were dropped."""
    notes = []
    if CODER in values:
        try:
            values[CODER] = known_coder(values[CODER])
        except FleetError as error:
            del values[CODER]
            notes.append(f"not taken over: default_agent, {error}")
    if values.get(ROOT, "").rstrip("/") in (USUAL_ROOT, os.path.expanduser(USUAL_ROOT)):  # noqa: PTH111
        del values[ROOT]
        notes.append(f"not taken over: {dotted(ROOT)}, since fleet keeps worktrees in its home")
    words = shlex.split(values.get(FLAGS, ""))
    if SKIP in words:
        rest = [word for word in words if word != SKIP]
        values[FLAGS] = shlex.join(rest)
        if not rest:
            del values[FLAGS]
        notes.append(f"not taken over: {SKIP}; `fleet init --permissions skip` says it once for all coders")
    return notes
