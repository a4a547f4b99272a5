"""Projects of fleet: write a repository's settings file from the project type and the user's older files."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path as File
from typing import Any, NamedTuple

from fleet.actions.tasks.rights import refuse_agents
from fleet.assembly import Fleet
from fleet.coders import known as known_coder
from fleet.core.errors import BadInput, FleetError
from fleet.core.task import Caller
from fleet.files import atomic_write, read_small
from fleet.git.repository import Repository, find_repository
from fleet.home import LEGACY_SETTINGS, PROJECT_FILES, Home, find_checkout, project_files
from fleet.settings.check import check, format_path
from fleet.settings.keys import KEYS, PROJECT, UNUSED, Path
from fleet.settings.load import read_table, refuse
from fleet.settings.project_types import Check, detect, find_check, get_project_defaults, list_dependency_folders
from fleet.settings.save import keep_copy, read_bytes, save
from fleet.settings.text import fill_text
from fleet.supervisor import trust

CODER: Path = ("coder",)
FLAGS: Path = ("agent", "claude_flags")
ROOT: Path = ("project", "worktree_root")
SKIP = "--dangerously-skip-permissions"
#: Default folder of ai-fleet's worktrees of all repositories.
USUAL_ROOT = "~/.ai_fleet/worktrees"


class MigratedSettings(NamedTuple):
    """The values that a project takes over, notes about the others, and the path of the old file."""

    values: dict[Path, Any]
    notes: list[str]
    path: str


def read(top: str) -> MigratedSettings:
    """Read the old file for the repository at `top`. Raises BadInput if the file is missing or invalid."""
    path = os.path.expanduser(LEGACY_SETTINGS)  # noqa: PTH111
    if not os.path.exists(path):  # noqa: PTH110
        hint = "omit --migrate-legacy: `fleet init` creates a project without it"
        raise BadInput(f"cannot migrate {path}: it does not exist", hint=hint)
    table = read_table(path)
    good: dict[Path, Any] = {}
    wrong = []
    for name, value in table.items():
        checked = check({name: value}, PROJECT)
        good |= checked.values
        wrong += [f"not taken over: {problem.message}" for problem in checked.problems]
    notes = [_unused(name, table[name], top) for name in UNUSED if name in table]
    return MigratedSettings(good, [*notes, *wrong, *_adapt(good)], path)


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
        return f"not imported: {name} has no effect in fleet"
    said = os.path.realpath(os.path.expanduser(str(value)))  # noqa: PTH111
    other = "" if said == os.path.realpath(top) else f"; it named another repository, {value}"
    return f"not imported: repo_root, because the project is the current repository{other}"


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
        notes.append(f"not taken over: {format_path(ROOT)}, since fleet keeps worktrees in its home")
    words = shlex.split(values.get(FLAGS, ""))
    if SKIP in words:
        rest = [word for word in words if word != SKIP]
        values[FLAGS] = shlex.join(rest)
        if not rest:
            del values[FLAGS]
        notes.append(f"not taken over: {SKIP}; `fleet init --permissions skip` says it once for all coders")
    return notes


LARGEST_TEXT = 1 << 20
COMMANDS: Path = ("setup", "commands")
FILES: Path = ("setup", "credential_files")
#: Beginning of a note on a command that is not trusted.
UNTRUSTED = "not trusted"


class Asked(NamedTuple):
    """What a person wants of a project."""

    kind: str | None = None
    check: Check | None = None  # the verify command
    migrate: bool = False
    force: bool = False


class MadeProject(NamedTuple):
    """A report of the changes to a project, one line per change."""

    top: str
    kind: str
    changes: list[str]
    notes: list[str]
    is_ours: bool
    """True if every command in the file comes from fleet or from the user's own older file."""


def project_top(home: Home, cwd: str) -> str | None:
    """Return the repository around a directory. Return None if its `.fleet` would be the home itself."""
    top = find_checkout(cwd)
    return top if top is not None and str(File(_place(top)).parent) != home.root else None


def init_project(
    fleet: Fleet,
    top: str,
    *,
    by: str,
    asked: Asked,
    caller: Caller | None = None,
) -> MadeProject:
    """Write the settings file of a repository that has none, and trust what was written here. Raises FleetError."""
    kind, check, migrate, force = asked
    refuse_agents(caller, "make a project")
    repository, path = find_repository(top), _place(top)
    if File(path).parent.is_symlink():
        raise FleetError(f"{File(path).parent} is a link", hint="replace it with a directory of the repository")
    taken = read(top) if migrate else MigratedSettings({}, [], "")
    found = project_files(top, fleet.home)
    named, kind = kind, kind or detect(lambda name: File(top, name).exists())
    is_new = force if found[:1] == [path] else migrate or not found
    made = _written(top, kind, path, found, taken, check) if is_new else _left(top, kind, found[0], taken)
    notes = [*made.notes, *taken.notes]
    if check and not is_new:
        notes.append("the verify command was not put into it: `fleet config set --project verify.command=…` does")
    if named and not is_new:
        rewrite = f": `fleet init --type {named} --force` rewrites it" if found[:1] == [path] else ""
        notes.append(f"nothing for a {named} project was added to it{rewrite}")
    if taken.path:
        notes.append(f"{taken.path} is kept as {keep(taken.path)}")
    changes, untrusted = _trust(fleet, repository, top, by if made.is_ours else "")
    return made._replace(changes=made.changes + changes, notes=notes + untrusted)


def proposed_check(home: Home, top: str, *, force: bool = False) -> Check | None:
    """Return the verify command to propose for a repository whose settings file is to be written."""
    found = project_files(top, home)
    if found and not (force and found[:1] == [_place(top)]):
        return None
    return find_check(lambda name: File(top, name).exists(), lambda name: _text(top, name))


def use_of(top: str) -> tuple[str, ...]:
    """Return the folders of installed dependencies of a repository that a verify command may need."""
    return list_dependency_folders(lambda name: File(top, name).exists())


def _text(top: str, name: str) -> str:
    try:
        return read_small(os.path.join(top, name), LARGEST_TEXT).decode("utf-8", "replace")  # noqa: PTH118
    except (OSError, FleetError):
        return ""


def _place(top: str) -> str:
    return str(File(top, PROJECT_FILES[0]))


def _trust(fleet: Fleet, repository: Repository, top: str, by: str) -> tuple[list[str], list[str]]:
    """Trust the project's commands in the name of `by`, if given.

    Return the trusted lines and notes on untrusted ones.
    """
    lines = trust.untrusted_commands(trust.settings_in(fleet.home, fleet.store, top, {}))
    notes = [f"git's {change}: not trusted" for change in trust.changed_repository(fleet.store, repository)]
    if by:
        trust.keep_trusted(fleet.store, repository, lines, by=by)
        trust.settings_in(fleet.home, fleet.store, top, {})  # records the trust, and takes the warning back
        return [f"trusted {line}" for line in lines], notes
    return [], [*(f"{UNTRUSTED}: {line}" for line in lines), *notes]


def _left(top: str, kind: str, path: str, taken: MigratedSettings) -> MadeProject:
    """Keep the existing file, and add only settings of the older file that it lacks."""
    table = read_table(path)
    checked = check(table, PROJECT)
    refuse(checked.problems, path)
    name = os.path.relpath(path, top)
    wanted = {key: value for key, value in taken.values.items() if key not in checked.values}
    kept = [format_path(key) for key, value in taken.values.items() if checked.values.get(key, value) != value]
    notes = [f"{key} keeps its value in {name}" for key in kept]
    if not wanted:
        return MadeProject(top, kind, [], [f"{name} already exists and is used unchanged", *notes], False)
    save(path, PROJECT, wanted)
    return MadeProject(top, kind, [f"added to {name}: {_names(wanted)}"], notes, False)


def _written(
    top: str, kind: str, path: str, found: list[str], taken: MigratedSettings, check: Check | None
) -> MadeProject:
    """Write a new file.

    The project's own values override the user's older file, which overrides the type's defaults.
    """
    changes, theirs = [], _older(path, found) if taken.path else {}
    if (old := read_bytes(path)) is not None:
        changes.append(f"kept a copy of the old file: {os.path.relpath(keep_copy(path, old), top)}")
    outfitted = get_project_defaults(kind, lambda name: File(top, name).exists())
    usual = {("project", "name"): File(top).name, FILES: outfitted.credential_files, COMMANDS: outfitted.commands}
    if check:
        usual |= {("verify", "command"): check.command, ("verify", "use"): check.use}
    good = {key: value for key, value in usual.items() if value and not _wrong(key, value)}
    values = good | taken.values | theirs
    optional = {COMMANDS: outfitted.optional} if values.get(COMMANDS) == outfitted.commands else {}
    File(path).parent.mkdir(0o755, exist_ok=True)
    atomic_write(path, fill_text(PROJECT, values, optional).encode(), 0o644)
    name = os.path.relpath(path, top)
    changes.append(f"wrote {name} for a {kind} project")
    changes += [f"took over from {taken.path}: {_names(taken.values)}"] if taken.values else []
    notes = [f"{os.path.relpath(each, top)} is no longer read: {name} counts" for each in found if each != path]
    return MadeProject(top, kind, changes, notes, is_ours=not theirs)


def _older(path: str, found: list[str]) -> dict[Path, Any]:
    """Return the values of ai-fleet's project files, which the new file would hide."""
    values: dict[Path, Any] = {}
    for each in found:
        if each != path:
            checked = check(read_table(each), PROJECT)
            refuse(checked.problems, each)
            values |= checked.values
    return values


def _wrong(key: Path, value: Any) -> bool:
    """Return True if a value found in a repository, such as the directory's name, is not a valid setting."""
    table: Any = list(value) if isinstance(value, tuple) else value
    for part in reversed(key):
        table = {part: table}
    return bool(check(table, PROJECT).problems)


def _names(values: Mapping[Path, Any]) -> str:
    return ", ".join(format_path(key) for key in KEYS if key in values) or ", ".join(map(format_path, values))
