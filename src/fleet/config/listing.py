"""The settings that hold, as rows to show: what each is, and who said it."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import reduce
from typing import Any, NamedTuple

import msgspec

from fleet.config.check import dotted
from fleet.config.keys import ANY, HOME, KEYS, NAMED, PROJECT, SECRET, Path, in_scope
from fleet.config.load import DEFAULT, Origin, Settings


class Row(NamedTuple):
    """One setting as it holds, in plain values; None is a setting that is not set."""

    key: str
    value: Any
    origin: Origin


def rows(settings: Settings, *, in_project: bool) -> list[Row]:
    """Every setting that matters here, in the order of the file; of tables with names, what somebody said."""
    scopes = (HOME, PROJECT) if in_project else (HOME,)
    wanted = [path for path in KEYS if any(in_scope(path, scope) for scope in scopes)]
    plain = [path for path in wanted if ANY not in path]
    return [row(settings, path) for path in (*plain, *_named(settings, wanted))]


def row(settings: Settings, path: Path) -> Row:
    """One setting by its path."""
    value = msgspec.to_builtins(reduce(_step, path, settings), builtin_types=(datetime,))
    if path in SECRET and value and "://" in value:
        value = value.partition("://")[0] + "://…"
    return Row(dotted(path), value, settings.origins.get(path, DEFAULT))


def _named(settings: Settings, wanted: list[Path]) -> Iterator[Path]:
    for top in NAMED:
        for name in getattr(settings, top):
            paths = ((top, name, *path[2:]) for path in wanted if path[0] == top)
            yield from (path for path in paths if path in settings.origins)


def _step(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
