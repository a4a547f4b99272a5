"""Validation of settings tables, with messages that help users to repair them."""

import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from fleet.core.errors import BadInput, closest
from fleet.settings.keys import (
    ALIASES,
    ELEMENTS,
    FOREIGN,
    HOME,
    KEYS,
    NAMED,
    PROJECT,
    RETIRED,
    SECRET,
    UNUSED,
    Path,
    Scope,
    SettingKey,
    in_scope,
    wild,
)

LIST = "run `fleet config` to list the keys"
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_NAMED = {"coders": "coder", "prices": "model"}
_FILE = {HOME: "runtime.toml", PROJECT: "a project's .fleet/config.toml"}


class Problem(NamedTuple):
    """An error in the settings, with a hint on how to fix it."""

    message: str
    hint: str = ""
    key: str = ""  # set if the key resembles none of fleet's: it may belong to another program or a newer fleet


class CheckedSettings(NamedTuple):
    """Result of a check: valid values by canonical path, problems, and notes on settings without effect."""

    values: dict[Path, Any]
    problems: list[Problem]
    notes: list[str]
    foreign: list[str]  # keys of another program

    @property
    def ignored(self) -> list[str]:
        """Return the ignored keys: those of other programs, and those that resemble none of fleet's."""
        return [*self.foreign, *(problem.key for problem in self.problems if problem.key)]


def check(table: Mapping[str, Any], scope: Scope) -> CheckedSettings:
    checked = CheckedSettings({}, [], [], [])
    for path, value in _leaves(table):
        if scope == PROJECT and path[0] in UNUSED:
            checked.notes.append(f"{path[0]} is a setting of ai-fleet that has no effect in fleet")
        elif scope == HOME and (path in RETIRED or path[0] in FOREIGN or path[0].startswith("telegram_")):
            checked.foreign.append(format_path(path))
        else:
            _check_setting(checked, path, value, scope)
    if checked.foreign:
        checked.notes.append(
            f"{', '.join(checked.foreign)}: settings of another program named fleet; they have no effect here"
        )
    return checked


def key_at(path: Path, scope: Scope) -> SettingKey:
    """Return the setting for a path in either spelling.

    Raises BadInput, with the nearest key as a hint, if the setting does not exist.
    """
    path = canonical(path, scope)
    key = KEYS.get(wild(path))
    if key is None:
        raise BadInput(f"unknown key {format_path(path)}", hint=_nearest(path, scope))
    if not in_scope(path, scope):
        other = HOME if scope is PROJECT else PROJECT
        raise BadInput(f"{format_path(path)} cannot be set here", hint=f"set it in {_FILE[other]}")
    if wild(path) != path and not _is_of_kind(path[1], NAMED[path[0]]):
        raise BadInput(f"{path[1]!r} cannot be the name of a {_NAMED[path[0]]}")
    return key._replace(path=path)


def check_value(key: SettingKey, value: Any) -> None:
    """Raise BadInput unless the setting accepts the value."""
    if not _is_of_kind(value, key.type):
        said = "this" if key.path in SECRET else _shorten_value(value)
        raise BadInput(f"{format_path(key.path)} must be {key.shape()}, not {said}")
    if key.path == ("agent", "claude_flags"):
        _check_words(key, value)


def canonical(path: Path, scope: Scope) -> Path:
    """Return the canonical path for one of ai-fleet's spellings."""
    return ALIASES.get(path, path) if scope == PROJECT else path


def format_path(path: Path) -> str:
    """Return a path in TOML notation."""
    return ".".join(part if _BARE.fullmatch(part) else msgspec.json.encode(part).decode() for part in path)


def path_of(text: str) -> Path:
    """Return the path that a user typed, parsed by TOML's rules for keys. Raises BadInput."""
    try:
        # Only one line, so that the text cannot contain more than a key.
        table: Any = tomllib.loads(f"{text} = 0") if text.isprintable() else None
    except (tomllib.TOMLDecodeError, RecursionError):
        table = None
    path: list[str] = []
    while isinstance(table, dict) and len(table) == 1:
        [(name, table)] = table.items()
        path.append(name)
    if table != 0 or not path:
        raise BadInput(f"{text!r} is not a key", hint=LIST)
    return tuple(path)


def _leaves(table: Mapping[str, Any], above: Path = ()) -> Iterator[tuple[Path, Any]]:
    for name, value in table.items():
        path = (*above, name)
        if isinstance(value, dict) and _is_section(path):
            yield from _leaves(value, path)
        else:
            yield path, value


def _is_section(path: Path) -> bool:
    start = wild(path)
    return any(key[: len(start)] == start and len(key) > len(start) for key in KEYS)


def _check_setting(checked: CheckedSettings, path: Path, value: Any, scope: Scope) -> None:
    if _is_section(path):
        checked.problems.append(Problem(f"{format_path(path)} must be a table, not {_shorten_value(value)}"))
        return
    try:
        key = key_at(path, scope)
        problems = _in_tables(key, value) if path in ELEMENTS and type(value) is list else []
        if not problems:
            check_value(key, value)
    except BadInput as error:
        strange = scope == HOME and error.hint == LIST
        problems = [Problem(str(error), error.hint, format_path(path) if strange else "")]
    if problems:
        checked.problems.extend(problems)
        return
    if checked.values.setdefault(key.path, value) != value:
        checked.problems.append(
            Problem(
                f"{format_path(key.path)} is set twice, with different values: also as {format_path(path)}",
                "remove one of them",
            )
        )


def _in_tables(key: SettingKey, tables: list[Any]) -> list[Problem]:
    """Return the problems of the tables in a list. Messages name a table by its position in the file, from 1."""
    found: list[Problem] = []
    said: set[tuple[Any, Any]] = set()
    for number, table in enumerate(tables, 1):
        name = f"{format_path(key.path)}[{number}]"
        hint = f"run `fleet config edit` and correct [[{format_path(key.path)}]] table number {number}"
        if type(table) is not dict:
            found.append(Problem(f"{name} must be a table, not {_shorten_value(table)}", hint))
            continue
        wrong = _in_table(key, name, table)
        again = not wrong and (table["coder"], table["name"]) in said
        if again:
            wrong = [f"{name}: {table['coder']} already has an account {table['name']!r}"]
            hint = "give each account of a coder its own name"
        said.add((table.get("coder"), table.get("name")) if not wrong else (None, number))
        found += [Problem(message, hint) for message in wrong]
    return found


def _in_table(key: SettingKey, name: str, table: Mapping[str, Any]) -> list[str]:
    known = ELEMENTS[key.path]
    unknown = [f"unknown key {name}.{format_path((each,))}" for each in table if each not in known]
    missing = [f"{name} needs a {each}" for each in ("name", "coder") if each not in table]
    return [
        *unknown,
        *missing,
        *(
            f"{name}.{each} must be {known[each].shape()}, not {_shorten_value(value)}"
            for each, value in table.items()
            if each in known and not _is_of_kind(value, known[each].type)
        ),
    ]


def _check_words(key: SettingKey, value: str) -> None:
    try:
        shlex.split(value)
    except ValueError as error:
        hint = "close the quotes, or set coders.claude.flags to a list with one word per element"
        raise BadInput(
            f"{format_path(key.path)} cannot be split into words: {str(error).lower()}", hint=hint
        ) from error


def _is_of_kind(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _shorten_value(value: Any) -> str:
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _nearest(path: Path, scope: Scope) -> str:
    known = {format_path(key): key for key in KEYS if in_scope(key, scope)}
    if scope == PROJECT:
        known |= {format_path(alias): alias for alias in ALIASES}
    wanted = format_path(path)
    by_last_part = {key[-1]: name for name, key in known.items()}
    close = closest(wanted, known) or [by_last_part[part] for part in closest(path[-1], by_last_part)]
    return f"did you mean {close[0]}?" if close else LIST


_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def assignment(text: str, scope: Scope) -> tuple[Path, Any]:
    """Return the canonical path and the value. Raises BadInput if the key is unknown or the value invalid."""
    name, equals, value = text.partition("=")
    if not equals:
        raise BadInput(f"{text!r} is not key=value", hint="run, for example, `fleet config set max_concurrent=5`")
    path = path_of(name.strip())
    if path[:1] in ELEMENTS:
        hint = f"run `fleet config edit` and edit the [[{path[0]}]] tables"
        raise BadInput(f"{path[0]} cannot be set by key: it is a list of tables", hint=hint)
    key = key_at(path, scope)
    if key.path[0] == "consent":
        raise BadInput(
            f"{format_path(key.path)} cannot be set manually",
            hint="run `fleet init --permissions skip` to record consent",
        )
    parsed = convert_text(value.strip(), key)
    check_value(key, parsed)
    return key.path, parsed


def convert_text(text: str, key: SettingKey) -> Any:
    """Convert text to the key's type. Return text that cannot be converted unchanged; validation then refuses it."""
    if key.kind is tuple and not text.startswith("["):
        return [part.strip() for part in text.split(",")] if text else []
    if key.kind is bool:
        return _WORDS.get(text, text)
    if key.kind in (int, float, tuple, dict) or (len(text) > 1 and text[0] == text[-1] == '"'):
        try:
            return tomllib.loads(f"value = {text}")["value"] if text.isprintable() else text
        except tomllib.TOMLDecodeError:
            return text
    return text
