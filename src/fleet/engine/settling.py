"""The end of a run: what it amounts to, written in one transaction."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from fleet.core.run import Ending, Outcome, Question
from fleet.core.unique import new_uuid
from fleet.engine.outcome import Seen, outcome_of
from fleet.engine.policy import decide

if TYPE_CHECKING:
    from fleet.core.run import Run
    from fleet.core.task import Claim, Task
    from fleet.engine.live import Live
    from fleet.engine.office import Office
    from fleet.launchers.base import Exit

log = logging.getLogger(__name__)


async def settle(office: Office, claim: Claim, live: Live, exit: Exit | None, alarm: Outcome | None) -> Task:
    """Record how a run ended and where its task goes next. Raises ClaimLost."""
    asked = live.folder.open_questions()
    stderr = live.folder.stderr_tail()
    result = live.folder.result_json(since=live.run.started_at) is not None

    def write() -> tuple[Task, Outcome]:
        with office.queue.atomic():
            task = office.queue.get(claim.task.id)
            seen = Seen(
                run=live.run,
                task=task,
                exit=exit,
                alarm=alarm,
                result_file=result,
                asked=bool(asked),
                stderr=stderr,
            )
            outcome = outcome_of(seen)
            _record_questions(office, task, live.run, asked)
            return _write(office, claim, live.run, outcome), outcome

    task, outcome = await office.ask(write)
    live.folder.log("subprocess_exited", run=live.run.id, outcome=outcome.ending, reason=outcome.reason)
    log.info("%s %s (%s): task is %s", live.run.id, outcome.ending, outcome.reason, task.status)
    return task


async def settle_unstarted(office: Office, claim: Claim, outcome: Outcome) -> Task:
    """Record that a run could not even be started. Raises ClaimLost."""

    def write() -> Task:
        with office.queue.atomic():
            verdict = decide(
                office.queue.get(claim.task.id),
                outcome,
                now=office.now(),
                limits=office.settings.limits,
                jitter=office.jitter(),
            )
            run = office.history.run(office.queue.get(claim.task.id).run_id)
            if run is not None and run.is_live:
                office.history.end(_ended(run, outcome, office))
            return office.queue.settle(claim, verdict)

    return await office.ask(write)


def _write(office: Office, claim: Claim, run: Run, outcome: Outcome) -> Task:
    if outcome.ending == Ending.RELEASED:
        office.history.end(_ended(run, outcome, office))
        return office.queue.release(claim)
    task = office.queue.get(claim.task.id)
    verdict = decide(task, outcome, now=office.now(), limits=office.settings.limits, jitter=office.jitter())
    office.history.end(_ended(run, outcome, office).replace(finding=verdict.finding))
    if outcome.ending == Ending.RATE_LIMITED:
        office.history.park(run.coder, run.account, until=verdict.not_before, reason=outcome.reason)
    return office.queue.settle(claim, verdict)


def _ended(run: Run, outcome: Outcome, office: Office) -> Run:
    return run.replace(
        ended_at=office.now(),
        ending=outcome.ending,
        reason=office.redactor.redact(outcome.reason),
        resume_at=outcome.resume_at,
        exit_status=outcome.exit_status,
        exit_signal=outcome.exit_signal,
    )


def _record_questions(office: Office, task: Task, run: Run, asked: list[str]) -> None:
    texts = list(asked)
    note = task.notes.rpartition("QUESTION:")[2].strip() if "QUESTION:" in task.notes else ""
    if note and task.status == "blocked" and not texts:
        texts.append(note)
    for text in texts:
        office.history.ask(
            Question(
                id=new_uuid()[:8], task_id=task.id, run_id=run.id, asked_at=office.now(), text=text, source="agent"
            )
        )
