"""This host among those that share a queue: its name, what it offers, and the options of its `fleet run`."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import msgspec

from fleet.core.clock import EPOCH
from fleet.core.host import MARK, PIN, Host, is_of_home
from fleet.core.ids import sha256
from fleet.core.record import Record
from fleet.files import atomic_write, write_once
from fleet.settings import load
from fleet.supervisor.lock import holder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from typing import Any

    from fleet.home import Home
    from fleet.settings import Settings


class Said(Record):
    """The options of `fleet run`. They take precedence over the settings."""

    coder: str = ""
    name: str = ""
    labels: tuple[str, ...] | None = None
    listen: str = ""
    slots: int | None = None

    def over(self, settings: Settings) -> Settings:
        """Return the settings with these options applied."""
        host = settings.host
        if self.name:
            host = msgspec.structs.replace(host, name=self.name)
        if self.labels is not None:
            host = msgspec.structs.replace(host, labels=self.labels)
        if self.listen:
            host = msgspec.structs.replace(host, listen=self.listen)
        slots = settings.max_concurrent if self.slots is None else self.slots
        return msgspec.structs.replace(settings, host=host, max_concurrent=slots)

    def note(self) -> dict[str, Any]:
        """Return these options as a supervisor's note carries them. `said_in` reads the note."""
        return {name: value for name, value in self.as_dict().items() if value not in ("", None)}


def said_in(note: Mapping[str, Any] | None) -> Said:
    """Return the options in a running supervisor's note. Return defaults if no note exists."""
    told = (note or {}).get("said", {})
    labels = told.get("labels")
    return Said(**{**told, "labels": None if labels is None else tuple(labels)})


def settings_here(home: Home) -> Settings:
    """Return the home's settings as its running supervisor sees them. If none runs, use the last supervisor's name."""
    said = said_in(holder(home))
    return said.replace(name=said.name or last_name(home)).over(load(home, env={}, lenient=True))


def default_coder(home: Home, settings: Settings) -> str:
    """Return the coder of tasks that name none: the one given to the running `fleet run`, else that of the settings."""
    return said_in(holder(home)).coder or settings.coder


def name_here(home: Home) -> str:
    """Return the name of this host, or its name when its supervisor last ran."""
    return name_of(settings_here(home))


def keep_name(home: Home, name: str) -> None:
    """Keep the `--name` of a supervisor for this home's programs until the next supervisor starts."""
    if name:
        atomic_write(home.kept_name, name.encode())
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(home.kept_name)  # noqa: PTH108 - paths of the home are strings


def last_name(home: Home) -> str:
    """Return the `--name` of this home's last supervisor. Return "" if it had none."""
    return _read(home.kept_name)


def pin_here(home: Home) -> str:
    """Return the label that a task must require to run on the host of this home. The label never changes."""
    if not (known := _read(home.identity)):
        write_once(home.identity, f"{name_here(home)}{MARK}{os.urandom(4).hex()}".encode())
        known = _read(home.identity)
    return PIN + known


def pin_of(home: Home) -> str:
    """Return the pin as `pin_here` does, but "" for a home that has none yet."""
    known = _read(home.identity)
    return PIN + known if known else ""


def pin_among(home: Home, hosts: Iterable[Host]) -> str:
    """Return the label that a pinned task of this home must require, given the known hosts.

    A home that never was a host may be on the machine of a host with the same name. Its tasks then go to that host.
    """
    own, name = pin_here(home), name_here(home)
    rows = list(hosts)
    is_left = all(own not in row.labels for row in rows) and any(row.name == name for row in rows)
    return PIN + name if is_left else own


def be_the_same(home: Home, row: Host) -> None:
    """Give a new home the identity that this host had before. Name and path show that the host is the same."""
    for word in row.labels:
        if is_of_home(word):
            write_once(home.identity, word.removeprefix(PIN).encode())


def name_of(settings: Settings) -> str:
    """Return the name of a host with these settings, by default the machine's name."""
    return settings.host.name or machine_name()


def machine_name() -> str:
    """Return the machine's name, with a dash for each character that a host's name cannot have."""
    found = "".join(char if char.isascii() and (char.isalnum() or char in "_.-") else "-" for char in _hostname())
    return found.lstrip("_.-")[:100] or "host"


def owner_of(home: Home, settings: Settings) -> str:
    """Return the id of this host, which owns its claims. The id survives restarts and differs by home."""
    place = os.path.realpath(home.root)
    return f"fleet@{settings.host.name or _hostname()}-{sha256(place.encode())[:6]}"


def machine_mark(home: Home) -> str:
    """Return a mark of this machine and its last boot. A clone of the machine has the same host id but another mark."""
    place = os.stat(home.root)  # noqa: PTH116 - the paths of the home are strings
    parts = (_read("/etc/machine-id"), _read("/proc/sys/kernel/random/boot_id"), f"{place.st_dev}:{place.st_ino}")
    return sha256(" ".join(parts).encode())[:16]


def offers(settings: Settings, pin: str) -> tuple[str, ...]:
    """Return the words that tasks may require and this host offers. `pin` is the pin of the home."""
    return Host(id="", name=name_of(settings), labels=(*settings.host.labels, pin), seen_at=EPOCH).offers


def is_seen(host: Host, now: datetime, seconds: float) -> bool:
    """Return True if a host updated its row within `seconds` and has not signed off."""
    return host.slots > 0 and (now - host.seen_at).total_seconds() <= seconds


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:  # noqa: PTH123
            return file.read().strip()
    except OSError:  # the file is missing on some systems and in some homes
        return ""


def _hostname() -> str:
    return os.uname().nodename
