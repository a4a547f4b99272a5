"""Parsing of `key=value` from a command line: which setting it names, and the value in that setting's type."""

import tomllib
from typing import Any

from fleet.config.check import check_value, dotted, key_at, path_of
from fleet.config.keys import ELEMENTS, Key, Path, Scope
from fleet.core.errors import BadInput

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
            f"{dotted(key.path)} cannot be set manually", hint="run `fleet init --permissions skip` to record consent"
        )
    parsed = typed(value.strip(), key)
    check_value(key, parsed)
    return key.path, parsed


def typed(text: str, key: Key) -> Any:
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
