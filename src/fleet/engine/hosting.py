"""This host among those that share a queue: what it is called, what it offers, what `fleet run` was told of it."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import msgspec

from fleet.config import load
from fleet.core.clock import EPOCH
from fleet.core.digest import sha256
from fleet.core.host import MARK, PIN, Host, is_of_home
from fleet.core.record import Record
from fleet.engine.single import holder
from fleet.files import atomic_write, write_once

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from typing import Any

    from fleet.config import Settings
    from fleet.home import Home


class Said(Record):
    """What `fleet run` was told: it counts before the settings."""

    coder: str = ""
    name: str = ""
    labels: tuple[str, ...] | None = None
    listen: str = ""
    slots: int | None = None

    def over(self, settings: Settings) -> Settings:
        """The settings with what was said laid over them."""
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
        """As the note of a supervisor carries it; `said_in` reads it."""
        return {name: value for name, value in self.as_dict().items() if value not in ("", None)}


def said_in(note: Mapping[str, Any] | None) -> Said:
    """What a running supervisor was told, by its note; nothing where there is none."""
    told = (note or {}).get("said", {})
    labels = told.get("labels")
    return Said(**{**told, "labels": None if labels is None else tuple(labels)})


def settings_here(home: Home) -> Settings:
    """The home's settings as its supervisor sees them, where one runs; else under the name that the last one had."""
    said = said_in(holder(home))
    return said.replace(name=said.name or last_name(home)).over(load(home, env={}, lenient=True))


def name_here(home: Home) -> str:
    """What this host is called, or was when its supervisor ran last."""
    return name_of(settings_here(home))


def keep_name(home: Home, name: str) -> None:
    """Have this home's programs know what its supervisor was told to be called, until the next one is started."""
    if name:
        atomic_write(home.kept_name, name.encode())
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(home.kept_name)  # noqa: PTH108 - paths of the home are strings


def last_name(home: Home) -> str:
    """What the last supervisor of this home was told to be called; empty: nothing."""
    return _read(home.kept_name)


def pin_here(home: Home) -> str:
    """What a task must require to run on the host of this home, whatever that is called: the same for ever."""
    if not (known := _read(home.identity)):
        write_once(home.identity, f"{name_here(home)}{MARK}{os.urandom(4).hex()}".encode())
        known = _read(home.identity)
    return PIN + known


def pin_of(home: Home) -> str:
    """The same, of a home that may not have it yet: then nothing."""
    known = _read(home.identity)
    return PIN + known if known else ""


def pin_among(home: Home, hosts: Iterable[Host]) -> str:
    """What a task of this home that stays must require, by the hosts there are.

    A home that never was a host, beside one that bears its name, leaves its tasks to that one: they are on one machine.
    """
    own, name = pin_here(home), name_here(home)
    rows = list(hosts)
    is_left = all(own not in row.labels for row in rows) and any(row.name == name for row in rows)
    return PIN + name if is_left else own


def be_the_same(home: Home, row: Host) -> None:
    """Have a home that is new be the one that this host had before: name and path say that it is the same host."""
    for word in row.labels:
        if is_of_home(word):
            write_once(home.identity, word.removeprefix(PIN).encode())


def name_of(settings: Settings) -> str:
    """What a host with these settings is called: unless they say, as the machine is."""
    return settings.host.name or machine_name()


def machine_name() -> str:
    """The machine's own name, with a dash for whatever a host's name cannot have."""
    found = "".join(char if char.isascii() and (char.isalnum() or char in "_.-") else "-" for char in _hostname())
    return found.lstrip("_.-")[:100] or "host"


def owner_of(home: Home, settings: Settings) -> str:
    """The id of this host, which owns its claims: the same over restarts, and each home has its own."""
    place = os.path.realpath(home.root)
    return f"fleet@{settings.host.name or _hostname()}-{sha256(place.encode())[:6]}"


def machine_mark(home: Home) -> str:
    """What tells this machine, since its last start, from another that has its name: a clone has the same id."""
    place = os.stat(home.root)  # noqa: PTH116 - paths of the home are strings
    parts = (_read("/etc/machine-id"), _read("/proc/sys/kernel/random/boot_id"), f"{place.st_dev}:{place.st_ino}")
    return sha256(" ".join(parts).encode())[:16]


def offers(settings: Settings, pin: str) -> tuple[str, ...]:
    """The words that tasks may require and find here; the pin is that of the home."""
    return Host(id="", name=name_of(settings), labels=(*settings.host.labels, pin), seen_at=EPOCH).offers


def is_seen(host: Host, now: datetime, seconds: float) -> bool:
    """Whether a host has told of itself within so many seconds, and has not said goodbye."""
    return host.slots > 0 and (now - host.seen_at).total_seconds() <= seconds


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:  # noqa: PTH123
            return file.read().strip()
    except OSError:  # not every system, and not every home, has it
        return ""


def _hostname() -> str:
    return os.uname().nodename
