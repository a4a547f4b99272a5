"""Blocks of ports for agents, each used by one agent and outside the range that the system assigns."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

#: Linux assigns outgoing connections ports from here on, which could block a server there by chance.
EPHEMERAL = 32768


def free_block(first: int, count: int, taken: Collection[int]) -> int:
    """Return the first port of a block of `count` that is neither leased nor in use. Raises FleetError.

    Blocks follow each other from `first` upwards, below the ports that Linux assigns to outgoing connections. If
    `first` is itself above that limit, blocks may go up to the last port.
    """
    return choose_block(first, count, taken, _is_free)


def choose_block(first: int, count: int, taken: Collection[int], is_free: Callable[[int], bool]) -> int:
    """Return the same, with `is_free` deciding whether a port is free."""
    end = EPHEMERAL if first < EPHEMERAL else 65536
    leased = frozenset(taken)
    for start in range(first, end - count + 1, count):
        block = range(start, start + count)
        if leased.isdisjoint(block) and all(is_free(port) for port in block):
            return start
    raise FleetError(
        f"no {count} free ports in a row from {first} up to {end - 1}",
        hint="`fleet gc` gives back those of finished agents; ports.base and ports.count choose others.",
    )


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # A port with only lingering old connections is free for a server.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            return False
    return True
