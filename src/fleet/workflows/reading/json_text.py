"""JSON with places: the json module parses the text, and PyYAML's marks provide the places."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from fleet.workflows.faults import FilePosition
from fleet.workflows.reading import yaml_text
from fleet.workflows.reading.tree import DEEPEST, DataTree, Malformed

#: Valid JSON that is not YAML: tabs between values, lone surrogates, control characters.
_NOT_YAML = re.compile(r"\t|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|[\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")


def read(text: str) -> DataTree:
    """Return the data in a JSON text. Raises Malformed."""
    twice: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        twice.extend(name for name, _ in pairs if len(found) < len(pairs))
        return found

    try:
        data = json.loads(text, object_pairs_hook=collect, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise Malformed(f"{error.msg[:1].lower()}{error.msg[1:]}", FilePosition(error.lineno, error.colno)) from error
    except (RecursionError, ValueError) as error:
        is_deep = isinstance(error, RecursionError)
        what = f"nested more than {DEEPEST} deep" if is_deep else str(error).partition(";")[0].lower()
        raise Malformed(what, FilePosition(1, 1)) from error
    tree = DataTree(text)
    tree.bound(data)
    try:
        tree = yaml_text.read(_NOT_YAML.sub(lambda found: " " if found[0] == "\t" else "x" * len(found[0]), text))
    except Malformed as error:  # for example a key of several lines; then only paths locate the faults
        if twice:
            raise Malformed(
                f"a key occurs twice among {', '.join(map(repr, twice[:20]))}", FilePosition(1, 1)
            ) from error
    tree.data = data
    return tree


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")
