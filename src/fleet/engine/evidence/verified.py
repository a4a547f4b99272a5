"""E7 and E8: fleet's own look at what a run left on its branch, where a command for that was named."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from fleet.core.jsontext import encode
from fleet.engine.environment import path_of, verify_environment
from fleet.engine.verifying import Room, tests_by, verify, verify_in_place, wanted_by

if TYPE_CHECKING:
    from fleet.core.task import Task
    from fleet.core.verification import Verification, Wanted
    from fleet.engine.evidence.gathering import Gathered
    from fleet.engine.live import Live
    from fleet.engine.office import Office
    from fleet.engine.work import Work
    from fleet.home import Home

COMMAND = "verify.command: "


async def verified(office: Office, task: Task, live: Live, work: Work, found: Gathered) -> Gathered:
    """What was gathered, with how its verify command ended, or why none was run. Raises FleetError, OSError."""
    wanted = wanted_by(live.settings, task)
    if wanted is None:
        return _without_command(live, found)
    tip = await asyncio.to_thread(lambda: work.tip)
    if tip is None:
        return _not(live, found, "not verified: its branch is gone")
    made = await _verify(office, task, live, work, wanted, tip)
    return _noted(live, found, made)


async def verified_in_place(office: Office, task: Task, live: Live, found: Gathered) -> Gathered:
    """Run the verify command of a task that worked in a plain directory, in the directory. Raises FleetError, OSError.

    Others may work there too, so the result is marked with a doubt.
    """
    wanted = wanted_by(live.settings, task)
    if wanted is None:
        return _without_command(live, found)
    room = _room(live.folder.home, live, task)
    made = await verify_in_place(office.launcher, live.folder.home.root, wanted, room, live.run.workspace)
    return _noted(live, found, made)


def _without_command(live: Live, found: Gathered) -> Gathered:
    """Return what was gathered, with a note if the project file has a verify command that is not trusted."""
    untrusted = [line.removeprefix(COMMAND) for line in live.settings.untrusted if line.startswith(COMMAND)]
    return (
        _not(live, found, f"not verified: {untrusted[0]!r} of the project file is not trusted") if untrusted else found
    )


def _noted(live: Live, found: Gathered, made: Verification) -> Gathered:
    made = made.replace(**live.folder.cleaned({"tail": made.tail, "why": made.why}))
    live.run = live.run.replace(verify=made.text())
    return found.replace(verification=made, not_verified="")


def _room(home: Home, live: Live, task: Task) -> Room:
    checkout = os.path.join(home.root, "verify", live.run.id.replace("/", "-"))  # noqa: PTH118
    env = verify_environment(home, os.environ, path=path_of(task, os.environ), scratch=checkout)
    return Room(os.path.join(live.place, "verify"), checkout, env, clean=live.folder.clean)  # noqa: PTH118


async def _verify(office: Office, task: Task, live: Live, work: Work, wanted: Wanted, tip: str) -> Verification:
    return await verify(
        office.launcher,
        work.view,
        wanted,
        _room(work.home, live, task),
        commit=tip,
        base=work.workspace.base_commit,
        tests=tests_by(live.settings),
    )


def _not(live: Live, found: Gathered, why: str) -> Gathered:
    flags = [*live.run.flagged, *([] if why in live.run.flagged else [why])]
    live.run = live.run.replace(flags=encode(flags[:20]))
    return found.replace(not_verified=why.removeprefix("not verified: "))
