"""JSON without the json module, whose import would take a third of the shim's start."""

from _json import encode_basestring_ascii, make_scanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Rules:
    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    memo: "dict[str, str]" = {}  # noqa: RUF012


_scan = make_scanner(_Rules())  # type: ignore[arg-type]


def decode(text: bytes) -> "dict[str, Any]":
    """Return the JSON object in a text. Raises ValueError if the text is not a JSON object."""
    try:
        value, _ = _scan(text.decode("utf-8", "surrogateescape").strip(), 0)
    except (StopIteration, SystemError, ValueError, RecursionError) as error:
        raise ValueError("not JSON") from error
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def encode(value: "Any") -> str:
    """Return plain data as JSON on one line."""
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{encode(str(key))}: {encode(item)}" for key, item in value.items()) + "}"
    return "[" + ", ".join(map(encode, value)) + "]"
