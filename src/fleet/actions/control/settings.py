"""Reading, changing and validating settings."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import reduce
from pathlib import Path as File
from typing import Any, NamedTuple

import msgspec

from fleet.actions.control.homes import ensure
from fleet.actions.tasks.rights import refuse_agents
from fleet.coders import known as known_coder
from fleet.coders import load as load_coder
from fleet.core.errors import BadInput, FleetError
from fleet.core.task import Caller
from fleet.home import PROJECT_FILES, Home, find_project, project_files
from fleet.settings import list_described_coders
from fleet.settings.check import Problem, assignment, check, format_path, key_at, path_of
from fleet.settings.keys import ANY, HOME, KEYS, NAMED, PROJECT, SECRET, Path, Scope, in_scope
from fleet.settings.load import DEFAULT, Origin, Settings, get_default, load, model_for, read_table
from fleet.settings.save import create, keep_copy, read_bytes, save
from fleet.settings.trusted import needs_trust


class SettingsFile(NamedTuple):
    """A settings file and its scope."""

    path: str
    scope: Scope


class SettingRow(NamedTuple):
    """A setting with its current value as plain data. None means not set."""

    key: str
    value: Any
    origin: Origin


class SettingChange(NamedTuple):
    """The result of a change."""

    place: SettingsFile  # the file that was written
    made_home: bool  # True if the home was created for the change
    to_trust: list[str]  # keys whose values take effect only after the user trusts them


class Report(NamedTuple):
    """The result of `validate`: the files that were read, the problems, and notes."""

    files: list[str]
    problems: list[Problem]
    notes: list[str]


def effective(home: Home, *, cwd: str, env: Mapping[str, str]) -> Settings:
    """Return the effective settings in a directory. Raises HomeMissing, BadInput."""
    home.require()
    return load(home, cwd, env, lenient=True)


def one(settings: Settings, key: str) -> SettingRow:
    """Return one setting by its key, in either spelling. Raises BadInput if the key is unknown."""
    path = path_of(key)
    try:
        found = key_at(path, HOME)
    except BadInput:
        found = key_at(path, PROJECT)
    return row(settings, found.path)


def raw(home: Home) -> bytes:
    """Return the bytes of runtime.toml. Raises HomeMissing, and BadInput if the file does not exist."""
    home.require()
    data = read_bytes(home.settings)
    if data is None:
        raise BadInput(
            f"{home.settings} does not exist", hint="run `fleet init` to write it with an explanation of each key"
        )
    return data


def change(
    home: Home, assignments: Sequence[str], *, cwd: str, project: bool, caller: Caller | None = None
) -> SettingChange:
    refuse_agents(caller, "change settings")
    place = place_to_write(home, cwd=cwd, project=project)
    changes = dict(assignment(text, place.scope) for text in assignments)
    _refuse_change(home, place, changes)
    made = ensure(home) if place.scope == HOME else False
    save(place.path, place.scope, changes)
    load(home, env={}, lenient=True)  # loading keeps them as the last good settings
    to_trust = []
    if place.scope == PROJECT:
        held = load(home, env={}, lenient=True)
        to_trust = [
            format_path(path) for path, value in changes.items() if needs_trust(path, value, get_default(held, path))
        ]
    return SettingChange(place, made, to_trust)


def validate(home: Home, *, cwd: str, env: Mapping[str, str]) -> Report:
    """Check every file and variable that settings come from. Raises HomeMissing."""
    home.require()
    project = find_project(cwd, home)
    files = [SettingsFile(home.settings, HOME)] if os.path.lexists(home.settings) else []
    found = project_files(project, home) if project else []
    files += [SettingsFile(path, PROJECT) for path in found[:1]]
    looked = [_look_at(place) for place in files]
    problems = [problem for found_here, _ in looked for problem in found_here]
    notes = [f"{path} is ignored: {found[0]} counts" for path in found[1:]]
    notes += [note for _, notes_here in looked for note in notes_here]
    if not problems:
        try:
            settings = load(home, cwd, env)
            for name in (settings.coder, *(account.coder for account in settings.accounts)):
                known_coder(name, described=settings.coders)
            for name in list_described_coders(settings):
                load_coder(name, settings)
            notes += _notes(settings)
        except FleetError as error:
            problems.append(Problem(str(error), error.hint))
    return Report([place.path for place in files], problems, notes)


def problems_of(place: SettingsFile) -> list[Problem]:
    return _look_at(place)[0]


def _look_at(place: SettingsFile) -> tuple[list[Problem], list[str]]:
    """Return the problems of one file, and notes on settings in it without effect."""
    try:
        found = check(read_table(place.path), place.scope)
    except BadInput as error:
        return [Problem(str(error), error.hint)], []
    problems = [Problem(f"{place.path}: {problem.message}", problem.hint) for problem in found.problems]
    return problems, [f"{place.path}: {note}" for note in found.notes]


def edit(
    home: Home, editor: Callable[[str], None], *, cwd: str, project: bool, caller: Caller | None = None
) -> tuple[list[Problem], str]:
    """Let an editor change a file, then check it. Return its problems, and where the old file is kept if it was."""
    refuse_agents(caller, "change settings")
    folder = find_project(cwd, home)
    inside = project or bool(folder and project_files(folder, home))
    place = place_to_write(home, cwd=cwd, project=inside)
    if place.scope == HOME:
        ensure(home)
    create(place.path, place.scope)
    before = read_bytes(place.path) or b""
    editor(place.path)
    problems = problems_of(place)
    changed = read_bytes(place.path) != before
    return problems, keep_copy(place.path, before) if problems and changed else ""


def place_to_write(home: Home, *, cwd: str, project: bool) -> SettingsFile:
    """Return the file that a change belongs in. Raises BadInput outside of a project."""
    if not project:
        return SettingsFile(home.settings, HOME)
    folder = find_project(cwd, home)
    if folder is None:
        hint = "go into a git repository, or omit --project to change runtime.toml"
        raise BadInput(f"{cwd} is not inside a project", hint=hint)
    # Change the existing file: a new .fleet beside an .aifleet would hide all of the latter's settings.
    found = project_files(folder, home) or [str(File(folder, PROJECT_FILES[0]))]
    return SettingsFile(found[0], PROJECT)


def _refuse_change(home: Home, place: SettingsFile, changes: Mapping[Path, Any]) -> None:
    """Raise BadInput if the coder is unknown, or if the user has not agreed to skip permissions."""
    said: dict[Path, Any] = {}
    for known in {SettingsFile(home.settings, HOME), place}:
        if File(known.path).exists():
            said |= check(read_table(known.path), known.scope).values
    if ("coder",) in changes:
        known_coder(changes["coder",], described={path[1] for path in (*said, *changes) if path[0] == "coders"})
    skips = any(path[-1] == "permissions" and value == "skip" for path, value in changes.items())
    if skips and place.scope == PROJECT:
        raise BadInput(
            "a project file cannot raise permissions",
            hint="run `fleet init --permissions skip` in your home to read about the risk and record your consent",
        )
    if skips and ("consent", "skip_permissions_at") not in said:
        hint = "run `fleet init --permissions skip` to read about the risk and record your consent"
        raise BadInput("permissions = skip needs your recorded consent first", hint=hint)


def _notes(settings: Settings) -> list[str]:
    """Return notes on settings that are valid but have no effect."""
    notes = []
    said = [row for row in rows(settings, in_project=False) if row.key.endswith("permissions") and row.value == "skip"]
    if said and not settings.consent.skip_permissions_at:
        notes.append(f"{said[0].key} = skip counts as user: run `fleet init --permissions skip` to agree to it")
    coder = settings.coder
    own = settings.coders[coder].model if coder in settings.coders else None
    if coder != settings.model_owner and model_for(settings, coder) is None:
        notes.append(f"model = {settings.model} is not handed to {coder}, which uses its own default")
    elif own and model_for(settings, coder) != own:
        notes.append(f"coders.{coder}.model is not used: {coder} is the default coder, and model says {settings.model}")
    return notes


def rows(settings: Settings, *, in_project: bool) -> list[SettingRow]:
    """Return every setting that applies here, in the order of the file. Of named tables, return only what was set."""
    scopes = (HOME, PROJECT) if in_project else (HOME,)
    wanted = [path for path in KEYS if any(in_scope(path, scope) for scope in scopes)]
    plain = [path for path in wanted if ANY not in path]
    return [row(settings, path) for path in (*plain, *_named(settings, wanted))]


def row(settings: Settings, path: Path) -> SettingRow:
    value = msgspec.to_builtins(reduce(_step, path, settings), builtin_types=(datetime,))
    if path in SECRET and value and "://" in value:
        value = value.partition("://")[0] + "://…"
    return SettingRow(format_path(path), value, settings.origins.get(path, DEFAULT))


def _named(settings: Settings, wanted: list[Path]) -> Iterator[Path]:
    for top in NAMED:
        for name in getattr(settings, top):
            paths = ((top, name, *path[2:]) for path in wanted if path[0] == top)
            yield from (path for path in paths if path in settings.origins)


def _step(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
