"""JSON text, written without the json module, whose import is a third of a `bd` call; read with it where needed."""

from __future__ import annotations

from _json import encode_basestring as _quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def encode(value: Any, indent: int | None = None) -> str:
    """The JSON of plain data, in the order given; two-space style lines where an indent is asked for."""
    parts: list[str] = []
    _write(value, parts, "" if indent is None else "\n", indent)
    return "".join(parts)


def decode(text: str) -> Any:
    """What a JSON text says; ValueError when it is none. The empty object and list come without the parser."""
    if text in ("{}", "[]"):
        return {} if text == "{}" else []
    import json  # only where there is something to parse: see the module's first line

    return json.loads(text)


def _write(value: Any, parts: list[str], line: str, indent: int | None) -> None:
    if isinstance(value, str):
        parts.append(_quoted(value))
    elif value is None or value is True or value is False:
        parts.append({None: "null", True: "true", False: "false"}[value])
    elif isinstance(value, int):
        parts.append(str(value))
    elif isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise ValueError(f"{value} has no JSON form")
        parts.append(repr(value))
    elif isinstance(value, dict):
        _write_items(((_quoted(str(key)) + ": ", item) for key, item in value.items()), "{}", parts, line, indent)
    else:
        _write_items((("", item) for item in value), "[]", parts, line, indent)


def _write_items(items: Any, brackets: str, parts: list[str], line: str, indent: int | None) -> None:
    inner = line if indent is None else line + " " * indent
    separator = brackets[0] + inner
    for label, item in items:
        parts.append(separator + label)
        _write(item, parts, inner, indent)
        separator = "," + (inner or " ")
    parts.append(brackets if separator[0] == brackets[0] else line + brackets[1])
