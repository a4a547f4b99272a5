"""What was staged in a worktree: its index, read as data, becomes a tree."""

# ruff: noqa: PTH118, PTH123
from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fleet.workspaces.contents import enter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.workspaces.view import View

#: What the sides of a conflict are called beside the file they are about.
SIDES = {b"1": b"~base", b"2": b"~ours", b"3": b"~theirs"}


def staged_tree(view: View, index: bytes, folder: str, env: Mapping[str, str] | None = None) -> str:
    """The tree of an index; where it has conflicts their sides lie beside each other. Raises GitFault."""
    theirs, ours = os.path.join(folder, "staged"), os.path.join(folder, "staged-whole")
    with open(theirs, "wb") as file:
        file.write(index)
    told = view.git("ls-files", "-z", "-s", index=theirs, env=env)
    entries = []
    for line in told.split(b"\0"):
        head, _, path = line.partition(b"\t")
        if path:
            mode, made, stage = head.split(b" ")
            entries.append((mode, made, path + SIDES.get(stage, b"")))
    view.git("read-tree", "--empty", index=ours)
    enter(view, ours, entries)
    return view.git("write-tree", index=ours, env=env).decode().strip()
