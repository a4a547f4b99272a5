"""Picking the best of several: each is verified in the same clean conditions, then all are ranked."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions import ranking
from fleet.assembly import open_launcher
from fleet.core.errors import FleetError, Usage
from fleet.core.redaction import Redactor, secret_values
from fleet.core.unique import new_uuid
from fleet.core.verification import Verification, Wanted
from fleet.engine.environment import verify_environment
from fleet.engine.trusting import settings_in
from fleet.engine.verifying import Room, tests_by, verify, wanted_by

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from fleet.actions.candidates import Candidate, Field
    from fleet.actions.judging import Judged
    from fleet.actions.ranking import Entry
    from fleet.assembly import Fleet
    from fleet.home import Home

#: How the folders of this are called; one that is so old is nobody's any more.
FOLDER, LEFT_SECONDS = "pick-", 86_400.0
NOTHING_TO_RUN = "there is no verify command"


class Plan(NamedTuple):
    """How candidates are verified: all of them alike."""

    wanted: Wanted | None
    tests: tuple[str, ...]
    why_not: str = ""  # why nothing is run


class Pick(NamedTuple):
    """Candidates in their order, the best first."""

    entries: list[Entry]
    left_out: tuple[tuple[str, str], ...]
    plan: Plan
    judged: Judged | None = None

    @property
    def winner(self) -> Entry | None:
        return ranking.winner(self.entries)

    @property
    def losers(self) -> list[Entry]:
        return [each for each in self.entries if each is not self.winner]

    def view(self) -> dict[str, Any]:
        best = self.winner
        return {
            "winner": best.candidate.name if best else None,
            "verify": self.plan.wanted.command if self.plan.wanted else None,
            "not_verified": self.plan.why_not or None,
            "candidates": [each.view() for each in self.entries],
            "left_out": [{"name": name, "why": why} for name, why in self.left_out],
            "judge": self.judged.view() if self.judged else None,
        }


def plan_for(fleet: Fleet, field: Field, command: str = "") -> Plan:
    """What the candidates are verified with: what is said here, else what all of them agree on.

    Raises Usage where they do not.
    """
    settings = settings_in(fleet.home, fleet.store, field.view.repository.top)
    if command:
        usual = Wanted(
            command=command,
            seconds=settings.verify.seconds,
            protect=settings.verify.protect,
            fail_to_pass=settings.verify.fail_to_pass,
            network=settings.verify.network,
        )
        return Plan(usual, tests_by(settings))
    found = {wanted_by(settings, each.task) for each in field.candidates}
    if len(found) > 1:
        commands = sorted({each.command if each else "none" for each in found})
        raise Usage(
            f"they are not to be verified alike: {'; '.join(commands)[:200]}", hint="say with what: --verify CMD."
        )
    wanted = found.pop()
    if wanted is None and any(line.startswith("verify.command:") for line in settings.untrusted):
        return Plan(None, (), "the project's verify command is not trusted: `fleet trust --show` shows it")
    if wanted is None:
        return Plan(None, (), NOTHING_TO_RUN)
    return Plan(wanted, tests_by(settings))


def pick(fleet: Fleet, field: Field, plan: Plan, *, jobs: int, tell: Callable[[Entry], None]) -> Pick:
    """Verify the candidates, so many at once, and rank them; `tell` hears of each as soon as it is done."""
    if plan.wanted is None:
        entries = [ranking.entry(each, None, not_verified=plan.why_not) for each in field.candidates]
    else:
        entries = asyncio.run(_verified(fleet.home, field, plan, jobs, tell))
    return Pick(ranking.ranked(entries), field.left_out, plan)


def jobs_for(field: Field) -> int:
    """How many are verified at once unless somebody says so."""
    return max(1, min(len(field.candidates), max(2, os.cpu_count() or 2)))


async def _verified(home: Home, field: Field, plan: Plan, jobs: int, tell: Callable[[Entry], None]) -> list[Entry]:
    stop, seats, launcher = asyncio.Event(), asyncio.Semaphore(jobs), open_launcher()
    _sweep(home)
    folder = home.verification(f"{FOLDER}{new_uuid()[:8]}")
    loop = asyncio.get_running_loop()

    async def look(number: int, candidate: Candidate) -> Entry:
        async with seats:
            if stop.is_set():
                return ranking.entry(candidate, None, not_verified="it was stopped")
            wanted = plan.wanted
            assert wanted is not None
            room = _room(home, f"{folder}-{number}", stop)
            try:
                seen = await verify(
                    launcher, field.view, wanted, room, commit=candidate.tip, base=candidate.base, tests=plan.tests
                )
            except (FleetError, OSError) as error:  # one that cannot be looked at does not take the others along
                seen = Verification(command=wanted.command, commit=candidate.tip, why=f"could not be run: {error}")
            finally:
                await asyncio.to_thread(shutil.rmtree, f"{folder}-{number}", ignore_errors=True)
            found = ranking.entry(candidate, seen)
            tell(found)
            return found

    with _heeding(loop, stop):
        entries = await asyncio.gather(*(look(number, each) for number, each in enumerate(field.candidates)))
    if stop.is_set():
        raise KeyboardInterrupt
    return entries


def _sweep(home: Home) -> None:
    """Remove what was left by one that was killed; the checkouts themselves are swept by whoever verifies next."""
    for each in Path(home.verify).glob(f"{FOLDER}*"):
        with contextlib.suppress(OSError):
            if time.time() - each.stat().st_mtime > LEFT_SECONDS:
                shutil.rmtree(each, ignore_errors=True)


def _room(home: Home, folder: str, stop: asyncio.Event) -> Room:
    """A place for one verification; the command's home and its temporary files go with its checkout."""
    checkout = os.path.join(folder, "checkout")  # noqa: PTH118
    env = verify_environment(home, os.environ, scratch=checkout)
    clean = Redactor(secret_values(os.environ)).text
    return Room(os.path.join(folder, "run"), checkout, env, stop, clean)  # noqa: PTH118


@contextlib.contextmanager
def _heeding(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> Any:
    """Ctrl-C ends what runs, and leaves nothing of it behind: a shim would go on without us."""
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
