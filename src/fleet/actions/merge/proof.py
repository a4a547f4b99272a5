"""Proof of a merge: fleet runs the verify commands of all merged tasks in a clean checkout."""

# ruff: noqa: PTH118
from __future__ import annotations

import asyncio
import os
import shutil
from typing import TYPE_CHECKING

from fleet.assembly import open_launcher
from fleet.core.errors import FleetError
from fleet.core.redaction import Redactor, secret_values
from fleet.files import make_private
from fleet.git.merge.stack import Proof
from fleet.proof.verify.commit import VerifyFolders, tests_by, verify, wanted_by
from fleet.proof.verify.using import Places, places_of
from fleet.supervisor.run.environment import verify_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fleet.assembly import Fleet
    from fleet.core.task import Task
    from fleet.core.verification import Verification, VerifyRequest
    from fleet.git.merge.trial import BranchToMerge
    from fleet.git.view import View
    from fleet.settings import Settings

VERIFY = "verify.command: "


class Prover:
    """A verifier of merge results, which runs each command once per commit. `folder` is for its exclusive use."""

    def __init__(self, fleet: Fleet, view: View, settings: Settings, folder: str, tell: Callable[[str], None]) -> None:
        self._fleet, self._view, self._settings, self._tell = fleet, view, settings, tell
        self._folder = folder
        self._known: dict[tuple[str, VerifyRequest], Verification] = {}
        self.base = ""  # the commit to compare with
        self.command = ""  # replaces the commands of the tasks and the project
        self.strict = True  # if True, an exit code of 0 that proves little is rejected
        self.count = 0

    def check(self) -> None:
        """Raise FleetError if the project's own command would run but is not trusted."""
        lines = [] if self.command else [each for each in self._settings.untrusted if each.startswith(VERIFY)]
        if lines:
            raise FleetError(
                f"the verify command of the project file is not trusted: {lines[0].removeprefix(VERIFY)}",
                hint="run `fleet trust --show` to show it, `fleet trust` accepts it",
            )

    def wanted(self, tasks: Mapping[str, Task]) -> list[VerifyRequest]:
        """Return the verify commands of these tasks and the project, each command once."""
        found: dict[str, VerifyRequest] = {}
        said = {"verify": self.command, "made_by": ""} if self.command else {}  # chosen by a person
        asked = [task.replace(**said) for task in tasks.values()]
        for task in asked if self.command else (None, *asked):
            wanted = wanted_by(self._settings, task)
            if wanted is None:
                continue
            # Failing before the change was each task's own proof. Files protected by one task are protected for all.
            for command in filter(None, (wanted.command, wanted.also)):
                known = found.get(command)
                protect = tuple(dict.fromkeys((*(known.protect if known else ()), *wanted.protect)))
                found[command] = wanted.replace(command=command, also="", fail_to_pass=False, protect=protect)
        return list(found.values())

    def prove(self, commit: str, changes: tuple[BranchToMerge, ...], tasks: Mapping[str, Task]) -> Proof:
        """Return whether a commit passes the commands of all changes in it."""
        inside = {change.name: tasks[change.name] for change in changes}
        for wanted in self.wanted(inside):
            done = self._verified(commit, wanted, inside)
            if not done.ok or (self.strict and not done.proves):
                how = done.in_words if not done.ok else _why_no_proof(done)
                return Proof(ok=False, words=f"`{wanted.command}` {how}", tail=done.tail)
        return Proof(ok=True)

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _verified(self, commit: str, wanted: VerifyRequest, inside: Mapping[str, Task]) -> Verification:
        known = self._known.get((commit, wanted))
        if known is None:
            self.count += 1
            self._tell(f"verifying {commit[:10]}: {wanted.command}")
            make_private(self._folder)
            known = self._known[commit, wanted] = asyncio.run(self._run(commit, wanted, self._places(inside)))
        return known

    def _places(self, inside: Mapping[str, Task]) -> Places:
        """Return where to find the folders that the command uses: no agent works in the main checkout."""
        spaces = [self._fleet.store.workspaces.get(key) for key in inside]
        return places_of(spaces, self._view.repository.top, first=False)

    async def _run(self, commit: str, wanted: VerifyRequest, places: Places) -> Verification:
        # The folder is always the same, so processes left by a killed merge are ended first.
        room = VerifyFolders(
            place=os.path.join(self._folder, "run"),
            checkout=os.path.join(self._folder, "checkout"),
            env=verify_environment(self._fleet.home, os.environ, scratch=os.path.join(self._folder, "checkout")),
            clean=Redactor(secret_values(os.environ)).text,
            places=places,
        )
        base, tests = self.base or commit, tests_by(self._settings)
        return await verify(open_launcher(), self._view, wanted, room, commit=commit, base=base, tests=tests)


def _why_no_proof(made: Verification) -> str:
    """Return why a passing command proves nothing.

    A task that started from another task's work may have been checked with weaker tests.
    """
    if made.doubts:
        return f"proves nothing: {made.doubts[0]}"
    return f"passes only with changed tests: {', '.join(made.contested[:3])}"
