"""Workflow files as data with places. Each format has a reader, imported only for such a file.

json_text  read JSON with places
toml_text  read TOML, with key paths as places
tree       data with the place of each value
yaml_text  read YAML with places
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from fleet.core.errors import BadInput
from fleet.files import read_small
from fleet.workflows.faults import BadWorkflow, Document, Fault, FilePosition
from fleet.workflows.reading.tree import Malformed

if TYPE_CHECKING:
    from fleet.workflows.reading.tree import DataTree

LARGEST = 1024 * 1024
READERS = {
    ".json": "fleet.workflows.reading.json_text",
    ".toml": "fleet.workflows.reading.toml_text",
    ".yaml": "fleet.workflows.reading.yaml_text",
    ".yml": "fleet.workflows.reading.yaml_text",
}


class Reader(Protocol):
    """The interface of each format's module."""

    def read(self, text: str) -> DataTree:
        """Return the data in a text, with places. Raises Malformed."""


def read(path: str) -> Document:
    """Return the data in a workflow file.

    Raises BadWorkflow if its syntax is wrong, and BadInput if it is not a workflow file or is unreadable.
    """
    suffix = os.path.splitext(path)[1].lower()  # noqa: PTH122 - paths of users are strings
    if suffix not in READERS:
        raise BadInput(f"{path!r} is no workflow file", hint=f"use a name that ends in {', '.join(READERS)}")
    reader: Reader = import_module(READERS[suffix])
    try:
        text = _text(path)
        tree = reader.read(text)
    except Malformed as error:
        raise BadWorkflow([Fault(path, error.place, "", str(error))]) from error
    return Document(path, tree.data, tree.values, tree.keys, tuple(tree.doubles), text)


def _text(path: str) -> str:
    try:
        data = read_small(path, LARGEST)
    except (OSError, ValueError) as error:
        what = error.strerror if isinstance(error, OSError) else str(error)
        hint = "run `fleet workflow new` to write an example"
        raise BadInput(f"cannot read {path!r}: {what}", hint=hint) from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace").split("\n")
        raise Malformed("not UTF-8 text", FilePosition(len(before), len(before[-1]) + 1)) from error
