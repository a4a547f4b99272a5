"""Settings files as text: generated from the declared settings, and edited without touching other content."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from fleet.core.errors import BadInput, FleetError
from fleet.settings.check import canonical, format_path
from fleet.settings.keys import ALIASES, ANY, DESCRIBING, ELEMENTS, HOME, KEYS, NAMED, Path, Scope, SettingKey, in_scope

_EDIT = "run `fleet config edit` to edit the file"
_TITLES = {
    "home": "# fleet settings. `fleet config set key=value` changes a setting and keeps the comments.",
    "project": "# Project settings, shared with the team. `fleet config set --project key=value` changes a setting.",
}
_EXAMPLES = {
    "project_files": '[".mycli/**", ".mcp.json"]',
    "permissions": '"user"',
    "queue": '"sqlite"',
    "queue_command": '["cat", "/run/secrets/fleet-queue"]',
    "mode": '"headless"',
    "command": '"make test"',
    "config": '"~/.config/fleet/tmux.conf"',
    "skip_permissions_at": "2026-01-31T12:00:00Z",
    "max_concurrent": "2",
    "max_tokens": "2000000",
    "max_cost_usd": "5.0",
    "context_limit": "200000",
    "program": '"~/bin/codex"',
    "argv": '["mycli", "--json", ["--model", "{model}"]]',
    "resume_argv": '["mycli", "--json", ["--model", "{model}"], "--resume", "{session}"]',
    "config_env": '"MYCLI_HOME"',
    "name": '"work"',
    "coder": '"claude"',
    "config_dir": '"~/.claude-work"',
    "input": "3.0",
    "output": "15.0",
    "cache_read": "0.3",
    "cache_write": "3.75",
}


def default_text(scope: Scope) -> str:
    """Return a file that explains every key. A home's file spells out plain defaults; tables are comments."""
    return fill_text(scope, {})


def fill_text(scope: Scope, values: Mapping[Path, Any], optional: Mapping[Path, Sequence[str]] | None = None) -> str:
    """Return such a file with some values set, each below its help. Optional list elements become comments."""
    parts, title = [_TITLES[scope]], ""
    live_titles = {_title(path) for path in values if path in KEYS}
    for key in (key for key in KEYS.values() if in_scope(key.path, scope)):
        if key.path in ELEMENTS:
            title = f"# {key.help}\n# [[{format_path(key.path)}]]"
            parts += [title, *(_format_with_help(each) for each in ELEMENTS[key.path].values())]
            continue
        if _title(key.path) != title:
            title = _title(key.path)
            parts.append(title.removeprefix("# ") if title in live_titles else title)
        plain = scope == HOME and not title and key.default is not None
        said = values.get(key.path, key.default if plain else None)
        parts.append(_format_with_help(key, said, (optional or {}).get(key.path, ())))
    made = "\n\n".join(parts) + "\n"
    named = {path: value for path, value in values.items() if path not in KEYS}
    return with_values(made, named, scope) if named else made


def with_values(text: str, changes: Mapping[Path, Any], scope: Scope) -> str:
    """Return the text with some settings changed and all else unchanged.

    Raises FleetError rather than lose any content.
    """
    import tomlkit  # the import costs as much as all other settings code together

    before = tomllib.loads(text)
    places = {_find_spelling(path, before, scope): value for path, value in changes.items()}
    wanted = tomllib.loads(text)
    for path, value in places.items():
        _set_value(wanted, path, value)
    for start in (_uncomment_keys(text, places), text):
        try:
            document = tomlkit.parse(start)
            for path, value in places.items():
                _set_value(document, path, value)
            made = tomlkit.dumps(document)
            if tomllib.loads(made) == wanted:
                return made
        except (tomlkit.exceptions.TOMLKitError, tomllib.TOMLDecodeError):
            continue
    names = ", ".join(format_path(path) for path in places)
    raise FleetError(f"cannot set {names} without changing other parts of the file", hint=_EDIT)


def toml_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{format_path((name,))} = {toml_value(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    import tomlkit  # see above

    return str(tomlkit.item(value).as_string())


def _title(path: Path) -> str:
    """Return the commented-out header above a key. Tables with chosen names get an example name."""
    names = {"coders": "mycli" if path[2:3] and path[2] in DESCRIBING else "codex", "prices": '"claude-sonnet-*"'}
    section = ".".join(names[path[0]] if part == ANY else part for part in path[:-1])
    return f"# [{section}]" if section else ""


def _format_with_help(key: SettingKey, said: Any = None, optional: Sequence[str] = ()) -> str:
    """Return a key below its help: with its value if given, else as a comment with default or example."""
    shape = f" ({key.shape()})" if key.kind in (int, float, bool) else ""
    lines = [f"# {line}" for line in f"{key.help}{shape}".splitlines()]
    if said is None:
        value = toml_value(key.default) if key.default is not None else _EXAMPLES.get(key.path[-1], '"…"')
        return "\n".join([*lines, f"# {key.path[-1]} = {value}"])
    value = _format_list(said, optional) if isinstance(said, list | tuple) and (said or optional) else toml_value(said)
    return "\n".join([*lines, f"{key.path[-1]} = {value}"])


def _format_list(values: Sequence[Any], optional: Sequence[str]) -> str:
    """Return a list with one line per element."""
    lines = [*(toml_value(value) for value in values), *(f"# {toml_value(value)}" for value in optional)]
    return "[\n" + "".join(f"    {line},\n" for line in lines) + "]"


def _find_spelling(path: Path, table: Mapping[str, Any], scope: Scope) -> Path:
    """Return the path in the spelling that the file already uses, else the canonical path."""
    path = canonical(path, scope)
    for alias in (alias for alias, meant in ALIASES.items() if meant == path and scope != HOME):
        found: Any = table
        for part in alias:
            found = found.get(part) if isinstance(found, Mapping) else None
        if found is not None:
            return alias
    return path


def _uncomment_keys(text: str, places: Mapping[Path, Any]) -> str:
    """Uncomment the lines of these top-level keys, so that each value stays below its help."""
    for name in (path[0] for path, value in places.items() if len(path) == 1 and value is not None):
        if not re.search(rf"(?m)^{re.escape(name)}\s*=", text):
            text = re.sub(rf"(?m)^# ?({re.escape(name)} = )", r"\1", text, count=1)
    return text


def _new_table(name: str) -> Any:
    import tomlkit  # see above

    return tomlkit.table(is_super_table=name in NAMED)


def _set_value(table: Any, path: Path, value: Any) -> None:
    """Set a value in a table of tables. None removes the key."""
    *sections, name = path
    for part in sections:
        if part not in table:
            table[part] = {} if type(table) is dict else _new_table(part)
        table = table[part]
        if not isinstance(table, dict):
            raise BadInput(f"{part} is not a table in this file", hint=_EDIT)
    if value is None:
        table.pop(name, None)
    else:
        table[name] = list(value) if isinstance(value, tuple) else value
