"""Artifacts that travel with a branch: a commit under a ref of fleet, packed on one host and unpacked on another."""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING

from fleet.git.commits import FLEET, make_commit
from fleet.git.mirror import FETCH
from fleet.git.remote import FETCH_SECONDS, talk
from fleet.git.repository import locked
from fleet.git.send import part_of_ref
from fleet.supervisor.agent_files import AgentFiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.git.remote import Remote
    from fleet.git.view import View
    from fleet.home import Home
    from fleet.supervisor.task_folder import TaskFolder


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


PARCELS = "refs/fleet/artifacts"
MOST_PACKED_FILES, MOST_PACKED_BYTES = 1_000, 64 * 1024 * 1024
_ROW = re.compile(rb"100644 blob ([0-9a-f]+) +(\d+)\t([^\0]+)")


def parcel(view: View, task_id: str, number: int, files: Mapping[str, bytes]) -> dict[str, str]:
    """Return a commit of a run's artifacts, by its target ref. Empty if there are no files. Raises GitFault."""
    if not files:
        return {}
    ref = f"{PARCELS}/{part_of_ref(task_id)}/{number}"
    return {ref: _packed(view, files, f"artifacts of {task_id}/{number}\n")}


def not_taken(refused: Mapping[str, str]) -> dict[str, str]:
    """Return the refused refs of a push, without artifacts that the remote already has.

    A run's artifacts do not change, so the first push counts.
    """
    there = ("already exists", "non-fast-forward")
    return {
        ref: why
        for ref, why in refused.items()
        if not ref.startswith(f"{PARCELS}/") or not any(word in why for word in there)
    }


def fetch_parcel(home: Home, view: View, remote: Remote, task_id: str) -> dict[str, bytes]:
    """Return the artifacts of a task's last run that the remote has. Empty if it has none."""
    below = f"{PARCELS}/{part_of_ref(task_id)}"
    with locked(home, view.repository):
        words = (*FETCH, "--", remote.address, f"+{below}/*:{below}/*")
        talk(view, remote, *words, seconds=FETCH_SECONDS)
    refs = view.text("for-each-ref", "--format=%(refname)", below).splitlines()
    numbers = [int(ref.rpartition("/")[2]) for ref in refs if ref.rpartition("/")[2].isdecimal()]
    return _unpacked(view, f"{below}/{max(numbers)}") if numbers else {}


def _packed(view: View, files: Mapping[str, bytes], message: str) -> str:
    view.make()
    rows = []
    for path, data in sorted(files.items()):
        blob = view.git("hash-object", "-w", "--stdin", stdin=data).decode().strip()
        rows.append(f"100644 {blob}\t".encode() + os.fsencode(path))
    index = os.path.join(view.path, f"parcel-{os.urandom(6).hex()}")  # noqa: PTH118
    try:
        view.git("update-index", "-z", "--index-info", index=index, stdin=b"".join(row + b"\0" for row in rows))
        tree = view.git("write-tree", index=index).decode().strip()
    finally:
        if os.path.lexists(index):
            os.unlink(index)  # noqa: PTH108
    return make_commit(view, tree, (), message, author=FLEET, committer=FLEET)


def _unpacked(view: View, ref: str) -> dict[str, bytes]:
    """Return the plain files of a commit, up to a total size. Other entries are left out."""
    found: dict[str, bytes] = {}
    left = MOST_PACKED_BYTES
    for row in view.git("ls-tree", "-r", "-l", "-z", ref).split(b"\0")[:MOST_PACKED_FILES]:
        told = _ROW.fullmatch(row)
        if told is None or int(told[2]) > left:
            continue
        left -= int(told[2])
        found[os.fsdecode(told[3])] = view.git("cat-file", "blob", told[1].decode())
    return found
