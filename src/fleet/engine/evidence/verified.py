"""E7 and E8: fleet's own look at what a run left on its branch, where a command for that was named."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from fleet.core.jsontext import encode
from fleet.engine.environment import path_of, verify_environment
from fleet.engine.verifying import Room, tests_by, verify, wanted_by

if TYPE_CHECKING:
    from fleet.core.task import Task
    from fleet.core.verification import Verification, Wanted
    from fleet.engine.evidence.gathering import Gathered
    from fleet.engine.live import Live
    from fleet.engine.office import Office
    from fleet.engine.work import Work

COMMAND = "verify.command: "


async def verified(office: Office, task: Task, live: Live, work: Work, found: Gathered) -> Gathered:
    """What was gathered, with how its verify command ended, or why none was run. Raises FleetError, OSError."""
    wanted = wanted_by(live.settings, task)
    if wanted is None:
        untrusted = [line.removeprefix(COMMAND) for line in live.settings.untrusted if line.startswith(COMMAND)]
        why = f"not verified: {untrusted[0]!r} of the project file is not trusted" if untrusted else ""
        return _not(live, found, why) if why else found
    tip = await asyncio.to_thread(lambda: work.tip)
    if tip is None:
        return _not(live, found, "not verified: its branch is gone")
    made = await _verify(office, task, live, work, wanted, tip)
    made = made.replace(**live.folder.cleaned({"tail": made.tail, "why": made.why}))
    live.run = live.run.replace(verify=made.text())
    return found.replace(verification=made)


async def _verify(office: Office, task: Task, live: Live, work: Work, wanted: Wanted, tip: str) -> Verification:
    place = os.path.join(live.place, "verify")  # noqa: PTH118
    checkout = os.path.join(work.home.root, "verify", live.run.id.replace("/", "-"))  # noqa: PTH118
    env = verify_environment(work.home, os.environ, path=path_of(task, os.environ), scratch=checkout)
    return await verify(
        office.launcher,
        work.view,
        wanted,
        Room(place, checkout, env),
        commit=tip,
        base=work.workspace.base_commit,
        tests=tests_by(live.settings),
    )


def _not(live: Live, found: Gathered, why: str) -> Gathered:
    flags = [*live.run.flagged, *([] if why in live.run.flagged else [why])]
    live.run = live.run.replace(flags=encode(flags[:20]))
    return found.replace(not_verified=why.removeprefix("not verified: "))
