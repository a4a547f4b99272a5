"""How a verify command is kept apart from agents, the user's files and the network, and how that is said in words."""

# ruff: noqa: PTH118, PTH120
from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fleet.launchers.base import Apart

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: More at once than any test suite has.
MOST_PROCESSES = 4096
#: Where others listen: desktops, containers, agents' terminals. Whoever reaches them can have things done elsewhere.
SOCKETS = ("/run/user", "/run/dbus", "/run/docker.sock", "/run/podman", "/run/containerd", "/var/run/docker.sock")
#: What only helps to reach others.
PROXIES = frozenset(("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"))

#: What the shim had, what that means, and what it means when it could not be had.
WORDS = (
    ("offline", "no network", "reach the network"),
    ("hidden", "no sight of fleet's own files", "see fleet's own files"),
    ("writes", "no place to write but its own", "write where the user can"),
)


def apart(
    home: str, places: Iterable[str], writable: tuple[str, ...], env: Mapping[str, str], *, network: bool
) -> Apart:
    """Return what a command is kept from, which sees these places and writes to the writable folders."""
    programs = [place for place in env.get("PATH", "").split(":") if place]
    return Apart(
        hidden=(home, *SOCKETS),
        kept=(*places, *_with_libraries(programs)),
        writable=writable,
        temporary=env["TMPDIR"],
        offline=not network,
        processes=MOST_PROCESSES,
    )


def secluded(env: Mapping[str, str], folder: str, *, network: bool) -> dict[str, str]:
    """An environment whose home and temporary files lie in a folder."""
    kept = {name: value for name, value in env.items() if network or name.upper() not in PROXIES}
    return kept | {"HOME": os.path.join(folder, "home"), "TMPDIR": os.path.join(folder, "tmp")}


def in_words(had: Iterable[str], containment: str, *, network: bool) -> str:
    """What a command could not reach; what it could, where the system did not allow to keep it from it."""
    had = set(had)
    asked = [row for row in WORDS if not (network and row[0] == "offline")]
    kept = [words for name, words, _ in asked if name in had]
    reached = [words for name, _, words in asked if name not in had]
    if containment == "pid namespace":
        kept.append("no other processes")
    else:
        reached.append("see other processes")
    kept.append("a home of its own")
    return (f"weak: it could {', '.join(reached)}; " if reached else "") + ", ".join(kept)


def _with_libraries(programs: Iterable[str]) -> list[str]:
    """Folders of programs with what lies beside them: a program in `bin` needs its `lib`."""
    return [os.path.dirname(place.rstrip("/")) if place.rstrip("/").endswith("bin") else place for place in programs]
