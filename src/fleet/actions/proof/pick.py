"""Picking the best of several candidates: verify each in the same clean conditions, then rank all of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.proof import ranking
from fleet.assembly import open_launcher
from fleet.core.errors import FleetError, UsageError
from fleet.core.ids import new_uuid
from fleet.core.redaction import Redactor, secret_values
from fleet.core.verification import Verification, VerifyRequest
from fleet.proof.verify.commit import NOT_RUN, VerifyFolders, doubted, tests_by, verify, wanted_by
from fleet.proof.verify.using import places_of
from fleet.supervisor.run.environment import verify_environment
from fleet.supervisor.trust import settings_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from fleet.actions.proof.candidates import Candidate, Field
    from fleet.actions.proof.judge import JudgeChoice
    from fleet.actions.proof.ranking import RankedCandidate
    from fleet.assembly import Fleet
    from fleet.home import Home
    from fleet.settings import Settings

#: The prefix of verification folders, and the age in seconds after which a folder counts as abandoned.
FOLDER, LEFT_SECONDS = "pick-", 86_400.0
NOTHING_TO_RUN = "there is no verify command"


class VerificationPlan(NamedTuple):
    """The verification of all candidates, with the same command and tests."""

    wanted: VerifyRequest | None
    tests: tuple[str, ...]
    why_not: str = ""  # why no command is run
    settings: Settings | None = None  # the project's settings, unless a person chose the command


class Pick(NamedTuple):
    """The candidates in order, the best first."""

    entries: list[RankedCandidate]
    left_out: tuple[tuple[str, str], ...]
    plan: VerificationPlan
    judged: JudgeChoice | None = None

    @property
    def winner(self) -> RankedCandidate | None:
        return ranking.winner(self.entries)

    @property
    def tied(self) -> list[RankedCandidate]:
        """Return the entries that tie with the winner, including it. Return [] if there is no tie."""
        found = ranking.tied(self.entries)
        return found if len(found) > 1 else []

    @property
    def lacks(self) -> str:
        """Return why the command could run on none of the candidates. Return "" if it ran on one."""
        seen = [each.verification for each in self.entries if each.verification]
        if not seen or not all(each.lacks for each in seen):
            return ""
        return f"{', '.join(sorted({each.lacks for each in seen}))} not found"

    @property
    def losers(self) -> list[RankedCandidate]:
        return [each for each in self.entries if each is not self.winner]

    def view(self) -> dict[str, Any]:
        best = self.winner
        return {
            "winner": best.candidate.name if best else None,
            "tied": [each.candidate.name for each in self.tied],
            "verify": self.plan.wanted.command if self.plan.wanted else None,
            "not_verified": self.plan.why_not or None,
            "candidates": [each.view() for each in self.entries],
            "left_out": [{"name": name, "why": why} for name, why in self.left_out],
            "judge": self.judged.view() if self.judged else None,
        }


def plan_for(fleet: Fleet, field: Field, command: str = "") -> VerificationPlan:
    """Return the plan for the candidates: the given command, else the command that all of them share.

    Raises UsageError if the candidates use different verify commands.
    """
    settings = settings_in(fleet.home, fleet.store, field.view.repository.top)
    if command:
        usual = VerifyRequest(
            command=command,
            seconds=settings.verify.seconds,
            protect=settings.verify.protect,
            fail_to_pass=settings.verify.fail_to_pass,
            network=settings.verify.network,
            setup=settings.verify.setup,
            use=settings.verify.use,
        )
        return VerificationPlan(usual, tests_by(settings))
    found = {wanted_by(settings, each.task) for each in field.candidates}
    if len(found) > 1:
        commands = sorted({each.command if each else "none" for each in found})
        raise UsageError(
            f"branches use different verify commands: {'; '.join(commands)[:200]}",
            hint="pass --verify CMD to run the same command on each.",
        )
    wanted = found.pop()
    if wanted is None and any(line.startswith("verify.command:") for line in settings.untrusted):
        return VerificationPlan(None, (), "the project's verify command is not trusted: `fleet trust --show` shows it")
    if wanted is None:
        return VerificationPlan(None, (), NOTHING_TO_RUN)
    return VerificationPlan(wanted, tests_by(settings), settings=settings)


def pick(
    fleet: Fleet, field: Field, plan: VerificationPlan, *, jobs: int, tell: Callable[[RankedCandidate], None]
) -> Pick:
    """Verify the candidates, up to `jobs` at once, and rank them. Call `tell` with each entry as soon as it is done."""
    if plan.wanted is None:
        entries = [ranking.entry(each, None, not_verified=plan.why_not) for each in field.candidates]
    else:
        entries = asyncio.run(_verified(fleet.home, field, plan, jobs, tell))
    return Pick(ranking.ranked(entries), field.left_out, plan)


def jobs_for(field: Field) -> int:
    """Return the default number of concurrent verifications."""
    return max(1, min(len(field.candidates), max(2, os.cpu_count() or 2)))


async def _verified(
    home: Home, field: Field, plan: VerificationPlan, jobs: int, tell: Callable[[RankedCandidate], None]
) -> list[RankedCandidate]:
    stop, seats, launcher = asyncio.Event(), asyncio.Semaphore(jobs), open_launcher()
    _sweep(home)
    folder = home.verification(f"{FOLDER}{new_uuid()[:8]}")
    loop = asyncio.get_running_loop()

    async def look(number: int, candidate: Candidate) -> RankedCandidate:
        async with seats:
            if stop.is_set():
                return ranking.entry(candidate, None, not_verified="it was stopped")
            wanted = plan.wanted
            assert wanted is not None
            places = places_of([candidate.space], field.view.repository.top)
            room = _room(home, f"{folder}-{number}", stop)._replace(places=places)
            try:
                seen = await verify(
                    launcher, field.view, wanted, room, commit=candidate.tip, base=candidate.base, tests=plan.tests
                )
            except (FleetError, OSError) as error:  # one unreadable candidate must not fail the others
                seen = Verification(command=wanted.command, commit=candidate.tip, why=f"{NOT_RUN}{error}")
            finally:
                await asyncio.to_thread(shutil.rmtree, f"{folder}-{number}", ignore_errors=True)
            if plan.settings is not None:
                seen = doubted(seen, plan.settings, candidate.task)
            found = ranking.entry(candidate, seen)
            tell(found)
            return found

    with _heeding(loop, stop):
        entries = await asyncio.gather(*(look(number, each) for number, each in enumerate(field.candidates)))
    if stop.is_set():
        raise KeyboardInterrupt
    return entries


def _sweep(home: Home) -> None:
    """Remove abandoned folders of killed processes. The next verification removes their checkouts."""
    for each in Path(home.verify).glob(f"{FOLDER}*"):
        with contextlib.suppress(OSError):
            if time.time() - each.stat().st_mtime > LEFT_SECONDS:
                shutil.rmtree(each, ignore_errors=True)


def _room(home: Home, folder: str, stop: asyncio.Event) -> VerifyFolders:
    """Return a place for one verification. The command's home and temporary files are in the checkout."""
    checkout = os.path.join(folder, "checkout")  # noqa: PTH118
    env = verify_environment(home, os.environ, scratch=checkout)
    clean = Redactor(secret_values(os.environ)).text
    return VerifyFolders(os.path.join(folder, "run"), checkout, env, stop, clean)  # noqa: PTH118


@contextlib.contextmanager
def _heeding(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> Any:
    """Stop the verifications on Ctrl-C or SIGTERM, so that none is left behind: a shim would continue without us."""
    numbers = []
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # not in the main thread
            loop.add_signal_handler(number, stop.set)
            numbers.append(number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
