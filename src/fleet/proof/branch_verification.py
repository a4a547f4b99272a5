"""Verification of what a run left on its branch, if a verify command is set (E7 and E8)."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from fleet.core.jsontext import encode
from fleet.core.task import WORKTREE
from fleet.git.view import View
from fleet.proof.baseline import spawn_of
from fleet.proof.verify import reach, using
from fleet.proof.verify.commit import VerifyFolders, doubted, tests_by, verify, verify_in_place, wanted_by
from fleet.supervisor.run.environment import path_of, verify_environment

if TYPE_CHECKING:
    from fleet.core.task import Task
    from fleet.core.verification import Verification, VerifyRequest
    from fleet.git.repository import Repository
    from fleet.home import Home
    from fleet.proof.evidence import RunEvidence
    from fleet.settings import Settings
    from fleet.supervisor.context import Context
    from fleet.supervisor.run.live import Live
    from fleet.supervisor.run.work import Work

COMMAND = "verify.command: "


async def verified(context: Context, task: Task, live: Live, work: Work, found: RunEvidence) -> RunEvidence:
    """Return the data with the result of the verify command, or why none ran. Raises FleetError, OSError."""
    wanted = wanted_by(live.settings, task)
    if wanted is None:
        return _note_untrusted_command(live, found)
    tip = await asyncio.to_thread(lambda: work.tip)
    if tip is None:
        return _record_no_verification(live, found, "not verified: its branch is gone")
    room, unlike = await context.run_in_thread(_compare_inputs, live, task, work.repository.top, wanted, work.view)
    made = await verify(
        context.launchers.headless,
        work.view,
        wanted,
        room,
        commit=tip,
        base=work.workspace.base_commit,
        tests=tests_by(live.settings),
    )
    return _record_verification(live, found, doubted(made, live.settings, task), unlike)


async def verified_in_place(context: Context, task: Task, live: Live, found: RunEvidence) -> RunEvidence:
    """Run the verify command of a task that worked in a plain directory in that directory. Raises FleetError, OSError.

    Others may work there too, so the result is marked with a doubt.
    """
    wanted = wanted_by(live.settings, task)
    if wanted is None:
        return _note_untrusted_command(live, found)
    room, unlike = await context.run_in_thread(_compare_inputs, live, task, live.run.workspace, wanted, found.tree.view)
    made = await verify_in_place(context.launchers.headless, live.folder.home.root, wanted, room, live.run.workspace)
    return _record_verification(live, found, doubted(made, live.settings, task), unlike)


def _choose_path(task: Task) -> str:
    """Return the PATH for a verify command if a user created the task. Return "" for the supervisor's PATH."""
    return "" if task.made_by else path_of(task, os.environ)


def _note_untrusted_command(live: Live, found: RunEvidence) -> RunEvidence:
    """Return the data, with a note if the project file has a verify command that is not trusted."""
    untrusted = [line.removeprefix(COMMAND) for line in live.settings.untrusted if line.startswith(COMMAND)]
    return (
        _record_no_verification(live, found, f"not verified: {untrusted[0]!r} of the project file is not trusted")
        if untrusted
        else found
    )


def reach_mark(home: Home, settings: Settings, task: Task, repository: Repository | None, directory: str) -> str:
    """Return a mark of what a task's verify command can reach, for a later comparison. Return "" without a command."""
    wanted = wanted_by(settings, task)
    if wanted is None or not directory:
        return ""
    path = verify_environment(home, os.environ, path=_choose_path(task), scratch="")["PATH"]
    view = View(home, repository) if repository is not None else None
    return reach.mark(_make_inputs(home, wanted, path, directory, view)._replace(in_place=task.workspace != WORKTREE))


def _make_inputs(home: Home, wanted: VerifyRequest, path: str, directory: str, view: View | None) -> reach.VerifyInputs:
    return reach.VerifyInputs(wanted.command, path, directory, home.verify, view, use=wanted.use)


def _compare_inputs(
    live: Live, task: Task, directory: str, wanted: VerifyRequest, view: View | None
) -> tuple[VerifyFolders, reach.InputDifferences]:
    """Return the room of a verification, and what changed since the run began in the files that it can reach."""
    room, home = _make_folders(live.folder.home, live, task), live.folder.home
    if view is not None:
        room = room._replace(places=using.places_of([live.workspace], view.repository.top))
    asked = _make_inputs(home, wanted, room.env["PATH"], directory, view)._replace(in_place=live.workspace is None)
    unlike = reach.changed(asked, str(spawn_of(live.run).get("reach") or ""), live.began_here.timestamp())
    if unlike.bytecode:  # Python must compile again instead of using bytecode that others may have written
        room = room._replace(env={**room.env, "PYTHONPYCACHEPREFIX": os.path.join(room.env["TMPDIR"], "bytecode")})  # noqa: PTH118
    return room, unlike


def _record_verification(
    live: Live, found: RunEvidence, made: Verification, unlike: reach.InputDifferences
) -> RunEvidence:
    made = made.replace(doubts=(*made.doubts, *unlike.doubts), notes=(*made.notes, *unlike.notes))
    made = made.replace(**live.folder.cleaned({"tail": made.tail, "why": made.why}))
    live.run = live.run.replace(verify=made.text())
    return found.replace(verification=made, not_verified="")


def _make_folders(home: Home, live: Live, task: Task) -> VerifyFolders:
    checkout = home.verification(live.run.id.replace("/", "-"))
    env = verify_environment(home, os.environ, path=_choose_path(task), scratch=checkout)
    return VerifyFolders(os.path.join(live.place, "verify"), checkout, env, clean=live.folder.clean)  # noqa: PTH118


def _record_no_verification(live: Live, found: RunEvidence, why: str) -> RunEvidence:
    flags = [*live.run.flagged, *([] if why in live.run.flagged else [why])]
    live.run = live.run.replace(flags=encode(flags[:20]))
    return found.replace(not_verified=why.removeprefix("not verified: "))
