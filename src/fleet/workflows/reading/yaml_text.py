"""YAML with places: only plain data, whatever tags request, and only unambiguous words."""

from __future__ import annotations

import re
from typing import Any

import yaml

from fleet.workflows.faults import FilePosition, Path
from fleet.workflows.reading.tree import DEEPEST, MOST_VALUES, DataTree, Malformed, inner

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: YAML 1.2's core words: `no` is a text, `0123` a number, `1:30` a text.
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]{1,3})?")
_TEXT_TAGS = ("!", "tag:yaml.org,2002:str")


def read(text: str) -> DataTree:
    """Return the data in a YAML text. Raises Malformed."""
    tree = DataTree(text)
    try:
        events = yaml.parse(text, Loader=_LOADER)
        _Reader(tree, events).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(str(error.problem or error.context or "not YAML").split())
        raise Malformed(what, _place(mark) if mark else FilePosition(1, 1)) from error
    except yaml.YAMLError as error:
        place = tree.place(getattr(error, "position", 0) or 0)
        raise Malformed(" ".join(str(error).split())[:200], place) from error
    return tree


class _Anchored:
    """The value of an anchor: its data, and how many values it contains."""

    def __init__(self, data: Any, size: int) -> None:
        self.data = data
        self.size = size


class _Reader:
    def __init__(self, tree: DataTree, events: Any) -> None:
        self._tree = tree
        self._events = iter(events)
        self._anchors: dict[str, _Anchored] = {}
        self._count = 0

    def document(self) -> None:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                break
        else:  # only comments
            self._tree.value_at((), FilePosition(1, 1))
            return
        self._tree.data = self._value(next(self._events), ())
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                raise Malformed("a second document begins", _place(event.start_mark))

    def _value(self, event: Any, path: Path) -> Any:
        place = _place(event.start_mark)
        self._tree.value_at(path, place)
        self._count += 1
        if isinstance(event, yaml.AliasEvent):
            return self._copy(event, path)
        before = self._count
        if isinstance(event, yaml.MappingStartEvent):
            data: Any = self._mapping(event, path)
        elif isinstance(event, yaml.SequenceStartEvent):
            data = self._sequence(event, path)
        else:
            data = _scalar(event, place)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(data, self._count - before + 1)
        return data

    def _mapping(self, event: Any, path: Path) -> dict[str, Any]:
        _plain_tag(event, "tag:yaml.org,2002:map")
        found: dict[str, Any] = {}
        for key in self._events:
            if isinstance(key, yaml.MappingEndEvent):
                break
            if not isinstance(key, yaml.ScalarEvent):
                raise Malformed("a key is not a word", _place(key.start_mark))
            self._tree.key_at((*path, key.value), _place(key.start_mark), again=key.value in found)
            found[key.value] = self._value(next(self._events), (*path, key.value))
        return found

    def _sequence(self, event: Any, path: Path) -> list[Any]:
        _plain_tag(event, "tag:yaml.org,2002:seq")
        found: list[Any] = []
        for element in self._events:
            if isinstance(element, yaml.SequenceEndEvent):
                break
            found.append(self._value(element, (*path, len(found))))
        return found

    def _copy(self, event: Any, path: Path) -> Any:
        """Return the value of an alias. Raises Malformed if aliases multiply a few lines into too many values."""
        place = _place(event.start_mark)
        anchored = self._anchors.get(event.anchor)
        if anchored is None:
            raise Malformed(f"no anchor {event.anchor!r} before this", place)
        self._count += anchored.size
        if self._count > MOST_VALUES:
            raise Malformed(f"more than {MOST_VALUES} values", place)
        if len(path) + _depth(anchored.data) > DEEPEST:
            raise Malformed(f"nested more than {DEEPEST} deep", place)
        return anchored.data


def _scalar(event: Any, place: FilePosition) -> Any:
    if event.tag is not None and event.tag not in _TEXT_TAGS:
        raise Malformed(f"the tag {event.tag!r} is not supported", place)
    if event.tag is not None or not event.implicit[0]:
        return event.value
    if event.value in _WORDS:
        return _WORDS[event.value]
    if _INTEGER.fullmatch(event.value):
        return int(event.value)
    return float(event.value) if _FLOAT.fullmatch(event.value) else event.value


def _plain_tag(event: Any, own: str) -> None:
    if event.tag is not None and event.tag != own:
        raise Malformed(f"the tag {event.tag!r} is not supported", _place(event.start_mark))


def _depth(data: Any) -> int:
    deepest, level = 0, [data]
    while level := [each for value in level if isinstance(value, dict | list) for each in inner(value)]:
        deepest += 1
    return deepest


def _place(mark: Any) -> FilePosition:
    return FilePosition(mark.line + 1, mark.column + 1)
