"""TOML parsed by tomllib, which provides no places. So paths locate the faults of values."""

from __future__ import annotations

import re
import tomllib

from fleet.workflows.faults import FilePosition
from fleet.workflows.reading.tree import DEEPEST, DataTree, Malformed

_TEXT = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*"{3,5}|\'\'\'(?:[^\']|\'(?!\'\'))*\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*',
    re.DOTALL,
)
_KEY = re.compile(r"[\w-]+(?:[ \t]*\.[ \t]*[\w-]+)*")
_PLACED = re.compile(r" \(at (?:line (\d+), column (\d+)|[^()]*)\)\Z")


def read(text: str) -> DataTree:
    """Return the data in a TOML text. Raises Malformed."""
    # tomllib's time grows with the square of a dotted key's length.
    plain = _TEXT.sub(lambda found: "_" * len(found[0]), text)
    tree = DataTree(text)
    for key in _KEY.finditer(plain):
        if key[0].count(".") >= DEEPEST:
            raise Malformed(f"nested more than {DEEPEST} deep", tree.place(key.start()))
    try:
        tree.data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _malformed(tree, text, str(error)) from error
    except (RecursionError, ValueError) as error:
        is_deep = isinstance(error, RecursionError)
        what = f"nested more than {DEEPEST} deep" if is_deep else str(error).partition(";")[0].lower()
        raise Malformed(what, FilePosition(1, 1)) from error
    tree.bound(tree.data)
    return tree


def _malformed(tree: DataTree, text: str, told: str) -> Malformed:
    what, placed = _PLACED.sub("", told).splitlines()[0], _PLACED.search(told)
    place = FilePosition(int(placed[1]), int(placed[2])) if placed and placed[1] else tree.place(len(text))
    return Malformed(f"{what[:1].lower()}{what[1:]}", place)
