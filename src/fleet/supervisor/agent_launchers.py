"""The launchers of a supervisor's agents: one without terminals, and one for each tmux server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.errors import FleetError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.agents.base import Launcher

HEADLESS, TMUX = "headless", "tmux"


class AgentLaunchers:
    """The launchers of a supervisor by name. A launcher of terminals is opened when it is first used."""

    def __init__(self, headless: Launcher, open_terminals: Callable[[str], Launcher] | None = None) -> None:
        #: The launcher of agents without a terminal, and of setup and verify commands.
        self.headless = headless
        self._open_terminals = open_terminals
        self._opened: dict[str, Launcher] = {}

    def find(self, name: str) -> Launcher:
        """Return the launcher called "headless" or "tmux:<socket>".

        Raises FleetError if the supervisor has no terminals.
        """
        kind, _, socket = name.partition(":")
        if kind != TMUX:
            return self.headless
        if self._open_terminals is None:
            raise FleetError("this supervisor starts no agents in terminals")
        if socket not in self._opened:
            self._opened[socket] = self._open_terminals(socket)
        return self._opened[socket]
