"""The shim of a restricted process. It is a separate program so that other shims need not load its imports."""

import os

from fleet.agents.shim.program import run
from fleet.agents.shim.sandbox import Sandbox
from fleet.agents.shim.tree import Namespace
from fleet.agents.shim.weak import held

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fleet.agents.shim.tree import ProcessTree


def make_tree(mark: str) -> "ProcessTree":
    """Return the tree for the shim's containment: a PID namespace, or weak."""
    return Namespace() if os.getpid() == 1 else held(mark)


def main() -> None:
    """Manage the folder named on the command line, and restrict its agent."""
    run(make_tree, Sandbox)
