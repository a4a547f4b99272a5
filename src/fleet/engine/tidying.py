"""Delete what killed processes left on the disk: half-deleted worktrees and checkouts of verify commands.

None of it is work of an agent.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.engine.work import Work
from fleet.workspaces.checkout import sweep
from fleet.workspaces.worktree import sweep_away

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleet.core.workspace import Workspace
    from fleet.home import Home

log = logging.getLogger(__name__)


def tidy(home: Home, spaces: Iterable[Workspace]) -> None:
    """Delete the remains of removed worktrees and checkouts, once for each repository."""
    for space in {(space.common, space.path.rpartition("/")[0]): space for space in spaces}.values():
        work = Work(home, space)
        try:
            sweep_away(work.repository, space.path)
            sweep(work.view)
        except (FleetError, OSError) as error:  # the repository may be gone, or its disk full
            log.warning("%s is not tidied: %s", space.repo, error)
