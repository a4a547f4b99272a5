"""The isolation of a verify command from agents, the user's files and the network, and its description in words."""

# ruff: noqa: PTH118, PTH120
from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fleet.launchers.base import Apart

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: More processes than any test suite needs.
MOST_PROCESSES = 4096
#: Sockets of desktops, containers and agents' terminals. Through them a process can act outside of its isolation.
SOCKETS = ("/run/user", "/run/dbus", "/run/docker.sock", "/run/podman", "/run/containerd", "/var/run/docker.sock")
#: Variables that only help to reach the network.
PROXIES = frozenset(("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"))

#: The shim's name of a restriction, its description, and what the command can do without it.
WORDS = (
    ("offline", "no network", "reach the network"),
    ("hidden", "no sight of fleet's own files", "see fleet's own files"),
    ("writes", "no place to write but its own", "write where the user can"),
)


def apart(
    home: str, places: Iterable[str], writable: tuple[str, ...], env: Mapping[str, str], *, network: bool
) -> Apart:
    """Return the isolation of a command that sees these places and writes to the writable folders."""
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
    """Return an environment with its home and temporary files in `folder`."""
    kept = {name: value for name, value in env.items() if network or name.upper() not in PROXIES}
    return kept | {"HOME": os.path.join(folder, "home"), "TMPDIR": os.path.join(folder, "tmp")}


def in_words(had: Iterable[str], containment: str, *, network: bool) -> str:
    """Return a description of the isolation: what the command could not reach, and what it still could."""
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
    """Return the programs' folders, with `bin` replaced by its parent: a program in `bin` needs its `lib`."""
    return [os.path.dirname(place.rstrip("/")) if place.rstrip("/").endswith("bin") else place for place in programs]
