"""Run a project's teardown commands before a worktree is removed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from fleet.engine.commands import run_command

if TYPE_CHECKING:
    from fleet.engine.removal import Plan
    from fleet.home import Home
    from fleet.launchers.base import Launcher

log = logging.getLogger(__name__)


async def tear_down(launcher: Launcher, home: Home, plan: Plan) -> None:
    """Run the teardown commands of a removal. A failure is logged and does not stop the removal."""
    space = plan.space
    for number, command in enumerate(plan.teardown, 1):
        place = home.teardown(space.task_id, number)
        done = await run_command(launcher, place, command, cwd=space.path, env=plan.env, seconds=plan.seconds)
        if not done.ok:
            log.warning("teardown of %s: %s", space.branch, done.in_words)
