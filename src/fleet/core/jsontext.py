"""JSON text, written without the json module, whose import takes a third of a `bd` call.

Reading imports the module only when needed.
"""

from __future__ import annotations

from _json import encode_basestring as _quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: C1 controls, direction marks, line ends and tags. JSON itself escapes C0. These characters occur only in strings.
_UNPRINTABLE = (*range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A), 0xFEFF)
_ESCAPES = {code: f"\\u{code:04x}" for code in _UNPRINTABLE}
_ESCAPES |= {0xE0000 + code: f"\\udb40\\u{0xDC00 + code:04x}" for code in range(0x80)}


def encode(value: Any, indent: int | None = None) -> str:
    """Return plain data as JSON, in the order given. With an indent, each item has its own line."""
    parts: list[str] = []
    _write(value, parts, "" if indent is None else "\n", indent)
    return "".join(parts)


def encode_printable(value: Any, indent: int | None = None) -> str:
    """Return plain data as JSON for a terminal, where no character can control it or reorder text."""
    return escape_unprintable(encode(value, indent))


def escape_unprintable(text: str) -> str:
    r"""Return JSON text with \uXXXX for characters that control a terminal or reorder text. Its value is equal."""
    return text if text.isascii() and "\x7f" not in text else text.translate(_ESCAPES)


def decode(text: str) -> Any:
    """Return the value of a JSON text. Raises ValueError. Empty objects and lists do not load the parser."""
    if text in ("{}", "[]"):
        return {} if text == "{}" else []
    import json  # import only if needed: see the module's docstring

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
