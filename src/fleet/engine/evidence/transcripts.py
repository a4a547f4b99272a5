"""E3: the file in which a coder keeps a session: whether it is there, and how many tools it tells of."""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING

from fleet.coders.base import Coder
from fleet.core.event import Kind
from fleet.engine.transcript import files_of
from fleet.workspaces.place import read_plain

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from fleet.core.run import Run

#: A longer file is not read again: it was looked at while the agent worked.
LARGEST_BYTES = 4 << 20
MOST_FILES = 8


def piece(coder: Coder, run: Run, env: Mapping[str, str]) -> dict[str, Any]:
    """What is told of a run's session elsewhere than in its stream; a count of none where it is not known."""
    told: dict[str, Any] = {"found": False, "session": run.session, "tool_calls": None}
    pattern = coder.transcript(run.session, run.workspace, env) if run.session else ""
    for path in islice(files_of(pattern), MOST_FILES):
        if os.path.isfile(path) and not os.path.islink(path):  # noqa: PTH113, PTH114
            return told | {"found": True, "tool_calls": _tool_calls(coder, path)}
    return told


def _tool_calls(coder: Coder, path: str) -> int | None:
    if type(coder).parse_session is Coder.parse_session or os.path.getsize(path) > LARGEST_BYTES:  # noqa: PTH202
        return None
    lines = read_plain(path, LARGEST_BYTES).decode("utf-8", "replace").splitlines()
    return sum(event.kind == Kind.TOOL_USE for line in lines for event in coder.parse_session(line))
