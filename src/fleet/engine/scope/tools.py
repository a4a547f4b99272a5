"""The requested actions of coders' tools: the command lines and file names in a tool's input, under any key."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

from fleet.engine.scope.bounds import DELETES, MAKES, WRITES
from fleet.engine.scope.patch import patched

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from fleet.core.event import Event

#: Tools that write files, by their names without case, `_` and `-`.
WRITERS = frozenset(
    (
        *("write", "edit", "multiedit", "notebookedit", "writefile", "replace", "createfile", "create", "editfile"),
        *("strreplace", "strreplaceeditor", "strreplacebasededittool", "insert", "insertedit", "writetofile", "update"),
        *("replaceinfile", "applydiff", "searchreplace", "movefile", "fswrite", "appendfile", "editnotebook"),
    )
)
DELETERS = frozenset(("deletefile", "removefile", "delete", "remove", "deletedirectory", "removedirectory"))
MAKERS = frozenset(("createdirectory", "mkdir", "makedirectory"))
PATCHERS = frozenset(("applypatch", "patch"))
#: Keys of their inputs for a file, a line, a working directory and a patch.
FILES = (
    *("file_path", "filePath", "path", "absolute_path", "notebook_path", "target_file", "filename", "file"),
    *("destination", "new_path", "source"),
)
LINES = ("command", "cmd", "argv", "script", "chars", "commands")
DIRECTORIES = ("workdir", "cwd", "dir_path", "directory", "working_directory")
PATCHES = ("input", "patch", "patchText", "patch_text", "content")
#: Commands with which an editing tool only reads.
LOOKING = ("view", "undo_edit", "read")
#: Maximum number of entries of a list to examine.
MOST = 200


class Call(NamedTuple):
    """The requested actions of a tool call."""

    lines: tuple[str, ...] = ()
    directory: str = ""
    files: tuple[tuple[str, str], ...] = ()  # each action and its file


def call_of(event: Event) -> Call:
    """Return the requested actions of a tool call. Return an empty call for a tool that does not write."""
    name, data = plain_name(event.tool), event.data
    if name == "filechange":
        return Call(files=tuple(_changes(data)))
    if name in PATCHERS:
        return Call(files=tuple(each for key in PATCHES for each in patched(_text(data, key))))
    verb = WRITES if name in WRITERS else DELETES if name in DELETERS else MAKES if name in MAKERS else ""
    if verb:
        return Call() if data.get("command") in LOOKING else Call(files=tuple(_files(verb, data)))
    lines = tuple(line for key in LINES for line in _lines(data.get(key)))
    return Call(lines=lines, directory=next((_text(data, key) for key in DIRECTORIES if _text(data, key)), ""))


def plain_name(tool: str) -> str:
    """Return a tool's name for comparison: without server, case and separators."""
    return tool[:500].rpartition("__")[2].lower().replace("_", "").replace("-", "")


def _changes(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for each in _list(data.get("changes")):
        if isinstance(each, dict) and _text(each, "path"):
            yield (DELETES if each.get("kind") == "delete" else WRITES), _text(each, "path")


def _files(verb: str, data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key in FILES:
        if path := _text(data, key):
            yield (DELETES if key == "source" else verb), path
    for key in ("edits", "files"):
        for each in _list(data.get(key)):
            if isinstance(each, dict):
                yield from ((verb, path) for name in FILES if (path := _text(each, name)))


def _lines(told: Any) -> list[str]:
    if isinstance(told, str):
        return [told]
    words = [each for each in _list(told) if isinstance(each, str)]
    return [shlex.join(words)] if words else []


def _list(told: Any) -> list[Any]:
    return told[:MOST] if isinstance(told, list) else []


def _text(data: dict[str, Any], key: str) -> str:
    told = data.get(key)
    return told if isinstance(told, str) else ""
