"""The result that an agent hands in at the end, with its shape checked. Its content is a claim, not a fact."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from fleet.core.record import Record
from fleet.core.result_schema import STATUSES, TEST_STATUSES

if TYPE_CHECKING:
    from typing import Any

LISTS = ("files_changed", "commits", "next_steps")
MOST_ENTRIES = 10_000


class ResultFile(Record):
    """An agent's own report of its work."""

    summary: str
    status: str
    files_changed: tuple[str, ...] = ()
    tests: tuple[dict[str, str], ...] = ()
    commits: tuple[str, ...] = ()
    next_steps: tuple[str, ...] = ()


def read_result(data: bytes) -> ResultFile:
    """Return the result in this file. Raises ValueError with the reason if the file is not valid."""
    try:
        told = json.loads(data.decode("utf-8"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return result_in(told)


def result_in(told: Any) -> ResultFile:
    """Return the result in plain data. Raises ValueError with the reason if the data is not valid."""
    if not isinstance(told, dict):
        raise ValueError("not an object")
    if told.get("status") not in STATUSES:
        raise ValueError(f"status is none of {', '.join(STATUSES)}")
    if not isinstance(told.get("summary"), str):
        raise ValueError("summary is not text")
    lists = {name: tuple(_text(item, name) for item in _list(told, name)) for name in LISTS}
    tests = tuple(_test(item) for item in _list(told, "tests"))
    return ResultFile(summary=_text(told["summary"], "summary"), status=told["status"], tests=tests, **lists)


def _list(told: dict[str, Any], name: str) -> list[Any]:
    found = told.get(name, [])
    if not isinstance(found, list) or len(found) > MOST_ENTRIES:
        raise ValueError(f"{name} is not a list of a sensible length")
    return found


def _text(item: Any, name: str) -> str:
    if not isinstance(item, str):
        raise ValueError(f"{name} holds something that is not text")
    return item.encode("utf-8", "replace").decode().replace("\0", "")


def _test(item: Any) -> dict[str, str]:
    if not isinstance(item, dict) or item.get("status") not in TEST_STATUSES:
        raise ValueError(f"a test's status is none of {', '.join(TEST_STATUSES)}")
    return {key: _text(item.get(key, ""), "tests") for key in ("command", "status", "details")}
