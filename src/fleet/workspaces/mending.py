"""What a merge that was killed left half done: a journal tells of it, and a checkout is brought to where its branch is.

The branch itself moves in one step of git's. Where it moved, the checkout follows; where it did not, the checkout goes
back. A file that is neither as it was nor as it was to be is somebody's since, and stays.
"""

# The paths are git's: any bytes.
# ruff: noqa: PTH106, PTH108, PTH118, PTH120, PTH123, PTH208
from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import time
from typing import TYPE_CHECKING

from fleet.core.errors import RepositoryBusy
from fleet.core.record import Record
from fleet.files import atomic_write, make_private
from fleet.workspaces.admin import head_of
from fleet.workspaces.commits import is_ancestor
from fleet.workspaces.listing import Directories
from fleet.workspaces.place import read_plain
from fleet.workspaces.repository import locked
from fleet.workspaces.seats import GITLINK, Seat, copy_index, steps_between

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from fleet.home import Home
    from fleet.workspaces.repository import Repository
    from fleet.workspaces.seats import Step
    from fleet.workspaces.view import View

FOLDER = "merges"
LONGEST = 4 * 1024 * 1024
#: What fleet's own git does to a checkout or a ref; such a one may outlive whoever called it.
WORDS = (b"read-tree", b"checkout-index", b"update-ref")
PATIENCE_SECONDS, PAUSE_SECONDS = 60.0, 0.02


class Entry(Record):
    """A branch that is being moved, as the journal keeps it."""

    token: str  # stands in the locks that are taken for it
    common: str
    top: str
    branch: str
    old: str
    new: str
    ref: str = ""  # what is moved: the branch, or where the result waits
    seats: tuple[tuple[str, str], ...] = ()  # path and git's folder of each checkout
    landing: tuple[Mapping[str, Any], ...] = ()  # what it is that lands, as whoever moves it notes it


def keep(home: Home, entry: Entry) -> None:
    """Put into the journal what is about to be done."""
    make_private(os.path.join(home.root, FOLDER))
    atomic_write(_file(home, entry), json.dumps(entry.as_dict()).encode(), 0o600)


def drop(home: Home, entry: Entry) -> None:
    """Take it out again: it is done, and what landed is noted."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_file(home, entry))


def entries(home: Home, repository: Repository | None = None, branch: str = "") -> list[Entry]:
    """What the journal has, of one repository and branch or any: nobody took it out, so it may be half done."""
    folder = os.path.join(home.root, FOLDER)
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    found = [_read(os.path.join(folder, name)) for name in names if name.endswith(".json")]
    known = [entry for entry in found if entry is not None]
    common = repository.common if repository else None
    return [entry for entry in known if common in (None, entry.common) and branch in ("", entry.branch)]


def mend(home: Home, view: View, entry: Entry) -> bool:
    """Bring to an end what was cut short; whether it landed. Call it with the queue of that branch held.

    The entry stays until it is dropped. Raises GitFault, RepositoryBusy.
    """
    view.make()
    _wait_for_git(view)
    with locked(home, view.repository):
        tip = view.commit_of(f"refs/heads/{entry.branch}")
        for path, admin in entry.seats:
            seat = Seat(path=path, admin=admin)
            here = os.path.isdir(path) and head_of(admin)[0] == entry.branch  # noqa: PTH112
            if here and tip in (entry.old, entry.new):
                away = entry.old if tip == entry.new else entry.new
                bring(view, seat, away, tip)
            if read_plain(seat.lock, 100) == entry.token.encode():
                os.unlink(seat.lock)
            with contextlib.suppress(OSError):
                os.unlink(seat.draft)
        _sweep(view, entry)
        now = view.commit_of(entry.ref) if entry.ref else None
        return now is not None and is_ancestor(view, entry.new, now)


def bring(view: View, seat: Seat, away: str, to: str) -> None:
    """Take a checkout, which may be half way between two commits, to one of them: files and index. Raises GitFault."""
    steps = [step for step in steps_between(view, away, to) if GITLINK not in (step.mode, step.new_mode)]
    index = os.path.join(view.path, f"mending-{os.urandom(6).hex()}")
    try:
        copy_index(seat, index)
        known = _entries(view, index)
        ours = [step for step in steps if _is_either(known.get(step.path), step)]
        lines = b"".join(_line(step) for step in ours)
        view.git("update-index", "-z", "--index-info", index=index, stdin=lines)
        _write(view, seat, [step for step in ours if _is_away(view, seat, step)], index)
        view.git("update-index", "-q", "--ignore-submodules", "--refresh", tree=seat.path, index=index, allow=(1,))
        install(seat, index)
    finally:
        for path in (index, f"{index}.lock"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


def install(seat: Seat, index: str) -> None:
    """Give a checkout its new index, with the time by which git tells what may have changed since."""
    there = os.path.lexists(seat.index)
    if there and not stat.S_ISREG(os.lstat(seat.index).st_mode):
        return  # nothing is written through a link or over a folder
    at, draft = os.lstat(index).st_mtime_ns, seat.draft
    with contextlib.suppress(FileNotFoundError):
        os.unlink(draft)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    with open(index, "rb") as new, os.fdopen(handle, "wb") as file:
        shutil.copyfileobj(new, file)
        file.flush()
        os.fsync(file.fileno())
    if there:
        os.chmod(draft, stat.S_IMODE(os.lstat(seat.index).st_mode))  # noqa: PTH101
    os.utime(draft, ns=(at, at))
    os.replace(draft, seat.index)  # noqa: PTH105


def _write(view: View, seat: Seat, steps: list[Step], index: str) -> None:
    there = Directories(seat.path)
    for step in steps:
        if step.goes and there.lstat(step.path) is not None:
            _remove(seat.path, step.path)
    wanted = b"\0".join(step.path for step in steps if not step.goes)
    if wanted:
        view.git("checkout-index", "-f", "-u", "-z", "--stdin", tree=seat.path, index=index, stdin=wanted)


def _remove(root: str, path: bytes) -> None:
    top = os.fsencode(root)
    os.unlink(os.path.join(top, path))
    folder = os.path.dirname(path)
    while folder:
        try:
            os.rmdir(os.path.join(top, folder))
        except OSError:  # something else is in it
            return
        folder = os.path.dirname(folder)


def _is_away(view: View, seat: Seat, step: Step) -> bool:
    """Whether a file is still as the other commit has it, or was begun and not ended: and not somebody's since."""
    found = Directories(seat.path).lstat(step.path)
    if found is None:
        return not step.goes
    if stat.S_ISDIR(found.st_mode):
        return False
    seen = _mode(found), _hash(view, seat, step.path, found)
    if not step.goes and seen == (step.new_mode, step.new_object):
        return False
    if not step.is_new and seen == (step.mode, step.object):
        return True
    return _is_begun(view, seat, step, found)


def _is_begun(view: View, seat: Seat, step: Step, found: os.stat_result) -> bool:
    """Whether a file is the beginning of what it is in either commit."""
    if not stat.S_ISREG(found.st_mode):
        return False
    for made in (made for made in (step.object, step.new_object) if made.strip(b"0")):
        whole = view.git("cat-file", "blob", made.decode())
        with open(os.path.join(os.fsencode(seat.path), step.path), "rb") as file:
            if found.st_size < len(whole) and whole.startswith(file.read(len(whole))):
                return True
    return False


def _mode(found: os.stat_result) -> bytes:
    if stat.S_ISLNK(found.st_mode):
        return b"120000"
    return b"100755" if found.st_mode & stat.S_IXUSR else b"100644"


def _hash(view: View, seat: Seat, path: bytes, found: os.stat_result) -> bytes:
    """What git would keep of a file."""
    where = os.path.join(os.fsencode(seat.path), path)
    if stat.S_ISLNK(found.st_mode):
        target = os.readlink(where)  # noqa: PTH115
        return view.git("hash-object", "--no-filters", "--stdin", stdin=target).strip()
    if not stat.S_ISREG(found.st_mode):
        return b""
    return view.git("hash-object", "--", os.fsdecode(path), tree=seat.path).strip()


def _entries(view: View, index: str) -> dict[bytes, tuple[bytes, bytes]]:
    found = {}
    for row in view.git("ls-files", "-s", "-z", index=index).split(b"\0"):
        head, _, path = row.partition(b"\t")
        if path:
            mode, made, stage = head.split(b" ")
            found[path] = (mode, made) if stage == b"0" else (b"", b"")
    return found


def _is_either(entry: tuple[bytes, bytes] | None, step: Step) -> bool:
    before = None if step.is_new else (step.mode, step.object)
    after = None if step.goes else (step.new_mode, step.new_object)
    return entry in (before, after)


def _line(step: Step) -> bytes:
    return step.new_mode + b" " + step.new_object + b"\t" + step.path + b"\0"


def _sweep(view: View, entry: Entry) -> None:
    for name in os.listdir(view.path):
        if name.startswith(f"moving-{entry.token}-"):
            os.unlink(os.path.join(view.path, name))


def _wait_for_git(view: View) -> None:
    """Wait until no git lives that a killed merge had called: it goes on writing without it."""
    until = time.monotonic() + PATIENCE_SECONDS
    while any(_of_merges(view)):
        if time.monotonic() > until:
            raise RepositoryBusy(
                f"a git that an earlier merge called still works on {view.repository.top}", hint="wait for its end."
            )
        time.sleep(PAUSE_SECONDS)


def _of_merges(view: View) -> Iterator[str]:
    try:
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return
    mark = b"GIT_DIR=" + os.fsencode(view.path)
    for pid in pids:
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read(1 << 16).split(b"\0")
            if any(word in words for word in WORDS):
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if mark in file.read(1 << 20).split(b"\0"):
                        yield pid


def _read(path: str) -> Entry | None:
    try:
        told = json.loads(read_plain(path, LONGEST))
        seats = tuple((str(place), str(admin)) for place, admin in told.pop("seats"))
        return Entry(**told | {"seats": seats, "landing": tuple(told.pop("landing"))})
    except (ValueError, TypeError, KeyError):
        return None  # never whole, so nothing was done yet


def _file(home: Home, entry: Entry) -> str:
    return os.path.join(home.root, FOLDER, f"{entry.token}.json")
