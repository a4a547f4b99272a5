"""The shim of a process that is kept apart; a program of its own, for others need not wait for what it imports."""

import os

from fleet.launchers.shim.apart import Apart
from fleet.launchers.shim.program import run
from fleet.launchers.shim.tree import Namespace
from fleet.launchers.shim.weak import held

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fleet.launchers.shim.tree import Tree


def make_tree(mark: str) -> "Tree":
    """The tree of a shim of either kind."""
    return Namespace() if os.getpid() == 1 else held(mark)


def main() -> None:
    """Keep the folder that the command line names, and what is started in it apart."""
    run(make_tree, Apart)
