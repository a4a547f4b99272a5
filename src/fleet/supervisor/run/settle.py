"""Settle tasks: write the verdict on a run and all its consequences in one transaction."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from fleet.core.accounts import after_run
from fleet.core.admission import is_pooled
from fleet.core.errors import ClaimLost, TaskNotFound
from fleet.core.finding import DONE, Evidence, judge_evidence
from fleet.core.ids import new_uuid
from fleet.core.outcome import find_last_question, list_denied_tools, outcome_of
from fleet.core.policy import decide
from fleet.core.rules import rules_of
from fleet.core.run import Account, Delivery, Ending, Outcome, Question
from fleet.core.task import Status, Verdict
from fleet.proof import baseline
from fleet.proof import receipt as receipts
from fleet.proof.evidence import NO_CHANGES, process
from fleet.settings.limits import account_limits_for
from fleet.supervisor import collision_radar
from fleet.supervisor.answers import ASKED_BEFORE
from fleet.supervisor.give_back import put_off
from fleet.supervisor.run import stage
from fleet.supervisor.run.lost_claim import end_task_json
from fleet.supervisor.store_calls import retry_until_stored
from fleet.supervisor.task_folder import TaskFolder, home_of

if TYPE_CHECKING:
    from typing import Any, TypeVar

    from fleet.core.finding import Judgement
    from fleet.core.outcome import RunObservations
    from fleet.core.receipt import Receipt
    from fleet.core.rules import Rules
    from fleet.core.run import Run
    from fleet.core.task import Claim, Task
    from fleet.proof.evidence import RunEvidence
    from fleet.store.base import Store
    from fleet.supervisor.context import Context
    from fleet.supervisor.run.live import Live

    T = TypeVar("T")

log = logging.getLogger(__name__)

#: Reason of a run that was given back because a user stopped the supervisor. Its task may be claimed again at once.
BY_ORDER = "the supervisor was stopped"


async def settle(
    context: Context,
    claim: Claim,
    live: Live,
    end: RunObservations,
    found: RunEvidence,
    outcome: Outcome,
    judgement: Judgement,
) -> Task:
    """Record how a run ended, the findings about it, and the next status of its task. Raises ClaimLost.

    If the task changed while the run was judged, as by `fleet kill`, the run is judged again with the current task.
    """
    store = context.store
    decided = outcome, judgement
    pieces = await asyncio.to_thread(lambda: live.folder.cleaned(found.pieces(live.run, end.exit)))

    def write() -> tuple[Task, Outcome]:
        with store.atomic():
            task = claimed_task(store.ports, claim)
            now = end.replace(task=task)
            outcome, judgement = decided if now == end else judge_run(live, now, found, outcome_of(now))
            if outcome.ending != Ending.CANCELLED:  # a cancelled run records no questions; they remain in Q&A.md
                last = find_last_question(now)
                left = () if outcome.handed_in else end.unanswered
                asked = [*end.asked, *left, *([live.folder.clean(last)] if last else [])]
                _record_questions(store.ports, task, live, asked)
            if live.quotas:
                store.accounts.note_quotas(list(live.quotas.values()))
            rules = _rules(task, found)
            settled = _write(context, claim, live, outcome, judgement, pieces, rules)
            end_task_json(context.home, context.redactor, settled, live.run)
            failed = stage.has_failed(settled) or settled.status == Status.BLOCKED
            # A run followed by another hands on no result. The work of a run that a user stopped was not examined.
            by_hand = outcome.ending == Ending.CANCELLED and not stage.is_cut_short(outcome)
            if outcome.ending in DONE or (failed and not by_hand):
                stage.keep_result(store.ports, live, outcome, found, failed=failed)
            return settled, outcome

    task, outcome = await retry_until_stored(store.call, f"end of {live.run.id}", write)
    with contextlib.suppress(OSError):  # the task is settled even if its own log cannot be written
        live.folder.log(
            "subprocess_exited",
            run=live.run.id,
            outcome=outcome.ending,
            reason=outcome.reason,
            finding=outcome.finding,
            shown=outcome.shown,
        )
    said = (live.run.id, outcome.ending, outcome.reason, outcome.finding, task.status)
    log.info("%s %s (%s): %s, task is %s", *said)
    return task


def judge_run(live: Live, end: RunObservations, found: RunEvidence, outcome: Outcome) -> tuple[Outcome, Judgement]:
    """Return the outcome with the finding, and the judgement of the evidence."""
    evidence = found.evidence(outcome, end.task)
    judgement = judge_evidence(evidence)
    judgement = judgement.replace(shown=tuple(live.folder.cleaned(judgement.shown)))
    told = outcome.replace(
        finding=judgement.finding,
        shown="; ".join(judgement.shown),
        says_blocked=live.folder.clean(evidence.missing or evidence.claimed_blocked),
    )
    return told, judgement


async def settle_unstarted(context: Context, claim: Claim, outcome: Outcome) -> Task:
    """Record that a run could not start, and decide the next status of its task. Raises ClaimLost."""
    store = context.store

    def write() -> Task:
        with store.atomic():
            task = claimed_task(store.ports, claim)
            verdict = decide(
                task,
                outcome,
                now=context.now(),
                limits=context.settings.limits,
                jitter=context.jitter(),
                findings=context.settings.findings,
                rules=rules_of(task),
            )
            run = store.runs.get(task.run_id)
            if run is not None and run.is_live:
                receipt = _keep_empty_receipt(context, run, outcome)
                store.runs.end(_end_run(run, outcome, context).replace(finding=receipt.finding, receipt=receipt.hash))
                _note_account(context, run, outcome, rules_of(task))
            settled = _settle_task(store.ports, claim, task, outcome, verdict)
            if run is not None:
                end_task_json(context.home, context.redactor, settled, run)
            return settled

    return await store.call(write)


async def give_back(context: Context, claim: Claim, reason: str, seconds: float) -> Task:
    """Give a task back uncounted, for a reason outside of the task. It waits for some seconds. Raises ClaimLost."""
    store = context.store

    def write() -> Task:
        with store.atomic():
            run = store.runs.get(claimed_task(store.ports, claim).run_id)
            if run is not None and run.is_live:
                store.runs.end(_end_run(run, Outcome(ending=Ending.RELEASED, reason=reason), context))
                end_task_json(context.home, context.redactor, store.tasks.get(run.task_id), run)
            freed = store.claims.settle(claim, Verdict(status=Status.OPEN))
            return put_off(store.ports, freed, context.redactor.redact(reason), seconds)

    return await retry_until_stored(store.call, f"end of {claim.task.id}", write)


def claimed_task(store: Store, claim: Claim) -> Task:
    """Return the claimed task as it is now. Raises ClaimLost if it was deleted."""
    try:
        return store.tasks.get(claim.task.id)
    except TaskNotFound:
        raise ClaimLost(claim.task.id, claim.epoch) from None


def _rules(task: Task, found: RunEvidence) -> Rules:
    """Return the rules of a task. An agent of a pooled task may report that nothing was to do."""
    rules = rules_of(task)
    says_so = found.result is not None and found.result.status == NO_CHANGES
    return rules.replace(no_changes=True) if says_so and is_pooled(task) and rules.no_changes is None else rules


def _write(
    context: Context,
    claim: Claim,
    live: Live,
    outcome: Outcome,
    judgement: Judgement,
    pieces: dict[str, Any],
    rules: Rules,
) -> Task:
    store, run = context.store.ports, live.run
    receipt = receipts.keep(store, live.folder, run, judgement, pieces)
    ended = _end_run(run, outcome, context).replace(finding=receipt.finding, receipt=receipt.hash)
    if outcome.ending == Ending.RELEASED:
        store.runs.end(ended)
        freed = store.claims.release(claim)
        if outcome.reason == BY_ORDER:
            return freed
        return put_off(store, freed, freed.reason or ended.reason)
    task = store.tasks.get(claim.task.id)
    verdict = decide(
        task,
        outcome,
        now=context.now(),
        limits=context.settings.limits,
        jitter=context.jitter(),
        findings=live.settings.findings,
        rules=rules,
    )
    verdict = _with_messages(store, run, outcome, verdict)
    store.runs.end(ended)
    _note_account(context, run, outcome, rules)
    return _settle_task(store, claim, task, outcome, verdict)


def _settle_task(store: Store, claim: Claim, task: Task, outcome: Outcome, verdict: Verdict) -> Task:
    """Settle a task. If it failed and its workflow's plan says so, stop the other stages."""
    if not task.workflow:
        return store.claims.settle(claim, verdict)
    settled = store.claims.settle(claim, stage.judge_stage(store, task, outcome, verdict))
    stage.stop_other_stages(store, settled)
    return settled


def _keep_empty_receipt(context: Context, run: Run, outcome: Outcome) -> Receipt:
    """Keep the receipt of a run that never started. Return the receipt."""
    judgement = judge_evidence(Evidence(ending=outcome.ending, reason=context.redactor.redact(outcome.reason)))
    pieces = {"spawn": baseline.piece(run), "process": process(run, None)}
    folder = TaskFolder(home_of(context.home, run), run.task_id, redactor=context.redactor)
    return receipts.keep(context.store.ports, folder, run, judgement, pieces)


def _note_account(context: Context, run: Run, outcome: Outcome, rules: Rules) -> None:
    """Record the effect of a run on its account. Call this on the store's thread."""
    store = context.store.ports
    known = {(each.coder, each.name): each for each in store.accounts.all()}
    before = known.get((run.coder, run.account)) or Account(coder=run.coder, name=run.account)
    now, limits = context.now(), account_limits_for(context.settings.limits, rules)
    after = after_run(before, outcome, started_at=run.started_at, now=now, limits=limits)
    if after.parked_until != before.parked_until:
        reason = context.redactor.redact(after.parked_reason)
        store.accounts.park(run.coder, run.account, until=after.parked_until, reason=reason)
        log.warning("%s %s is parked until %s: %s", run.coder, run.account, after.parked_until, reason)
    if outcome.limit == "auth":
        context.secrets.forget(run.coder, run.account)
    if after.strikes != before.strikes:
        store.accounts.note_strikes(run.coder, run.account, strikes=after.strikes)


def _with_messages(store: Store, run: Run, outcome: Outcome, verdict: Verdict) -> Verdict:
    """Return a verdict that accounts for undelivered messages.

    An undelivered message reopens a closed or interrupted task. An interruption without text blocks a task that would
    be open. Messages of fleet about collisions wait for the next run.
    """
    waiting = [each for each in store.messages.find(run.task_id) if each.state in (Delivery.QUEUED, Delivery.SENT)]
    unheard = [each for each in waiting if each.author != collision_radar.AUTHOR and not each.is_prompt]
    orders = [each for each in unheard if not each.text]
    for each in orders:
        store.messages.mark(each.id, Delivery.DELIVERED, store.now(), run.id)
    if len(unheard) > len(orders):
        goes_on = verdict.status == Status.CLOSED or outcome.ending == Ending.INTERRUPTED
        told = Verdict(status=Status.OPEN, reason="a message for it arriveds agent", finding=verdict.finding)
        return told if goes_on else verdict
    if verdict.status == Status.BLOCKED and any(each.id == run.id for each in waiting):
        return verdict.replace(reason=f"{verdict.reason}; it never read its prompt")
    if orders and verdict.status == Status.OPEN:
        return verdict.replace(
            status=Status.BLOCKED, reason="interrupted manually; run `fleet prompt` to give it instructions"
        )
    return verdict


def _end_run(run: Run, outcome: Outcome, context: Context) -> Run:
    return run.replace(
        ended_at=context.now(),
        ending=outcome.ending,
        reason=context.redactor.redact(outcome.reason),
        resume_at=outcome.resume_at,
        exit_status=outcome.exit_status,
        exit_signal=outcome.exit_signal,
    )


def asked_before(run: Run) -> int:
    return int(run.notes.get(ASKED_BEFORE, 0))


def _record_questions(store: Store, task: Task, live: Live, asked: list[str]) -> None:
    run, texts = live.run, list(asked)
    if task.status == Status.BLOCKED and not texts:
        # A user may have answered already. The answer is taken after the question is recorded.
        texts = [each.text for each in live.folder.questions()[asked_before(run) :]]
    note = task.notes.rpartition("QUESTION:")[2].strip() if "QUESTION:" in task.notes else ""
    if note and task.status == Status.BLOCKED and not texts:
        texts.append(note)
    if denied := list_denied_tools(run):
        texts.append(
            f"The agent was not allowed to use {', '.join(denied)}. Allow it in the coder's own settings, or agree to "
            "permissions = skip (fleet init), and answer what it shall do."
        )
    for text in texts:
        store.questions.ask(
            Question(id=new_uuid()[:8], task_id=task.id, run_id=run.id, asked_at=store.now(), text=text, source="agent")
        )
