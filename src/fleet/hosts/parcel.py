"""The artifacts of a task, packed on one host and unpacked on the next."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from fleet.engine.agent_files import AgentFiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.engine.folder import TaskFolder

MOST_FILES, DEEPEST = 200, 4
LARGEST, MOST_BYTES = 1 << 20, 8 << 20


def packed(folder: TaskFolder) -> dict[str, bytes]:
    """Return the artifacts of a task by path: plain files, limited in number and size, with secrets redacted."""
    found: dict[str, bytes] = {}
    with contextlib.suppress(OSError):
        _pack(folder, _artifacts(folder), "", found, 0)
    return found


def unpack(folder: TaskFolder, files: Mapping[str, bytes]) -> None:
    """Write artifacts where the next agent looks for them. Raises OSError."""
    for path, data in files.items():
        *folders, name = path.split("/")
        if any(part in ("", ".", "..") or "\0" in part for part in (*folders, name)):
            continue
        place = _artifacts(folder)
        for each in folders:
            place = place.below(each)
        place.make()
        place.write(name, data)


def _artifacts(folder: TaskFolder) -> AgentFiles:
    return AgentFiles(folder.home.tasks, folder.task_id, "artifacts")


def _pack(folder: TaskFolder, place: AgentFiles, above: str, found: dict[str, bytes], depth: int) -> None:
    for name, is_folder in place.entries(MOST_FILES):
        if is_folder and depth < DEEPEST:
            _pack(folder, place.below(name), f"{above}{name}/", found, depth + 1)
        elif not is_folder and len(found) < MOST_FILES:
            data = place.read(name, LARGEST + 1) or b""
            if len(data) <= LARGEST and sum(map(len, found.values())) + len(data) <= MOST_BYTES:
                found[above + name] = _cleaned(folder, data)


def _cleaned(folder: TaskFolder, data: bytes) -> bytes:
    try:
        return folder.clean(data.decode()).encode()
    except UnicodeError:  # not text: an image, for example
        return data
