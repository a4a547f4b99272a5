"""What a run gets when it starts: its token, the messages for its agent, and the questions about its task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.coders.base import ANYWHERE, SAME_CWD
from fleet.core.filter import Filter
from fleet.core.finding import Finding
from fleet.core.rules import rules_of
from fleet.core.run import Delivery, Ending, Message
from fleet.core.task import Caller

if TYPE_CHECKING:
    from fleet.coders.base import Coder
    from fleet.core.run import Question, Run
    from fleet.core.task import Claim
    from fleet.store.base import Store


#: Maximum number of makers to follow above a task. A deleted task counts as the maximum, because it could hide any.
DEEPEST = 100


def gather_inputs(store: Store, claim: Claim, run: Run) -> tuple[str, list[Message], list[Question]]:
    """Return a token for the run, the messages for its agent, and the questions about its task."""
    token = issue_token(store, claim, run)
    return token, _waiting(store, run.task_id), store.questions.find(task_id=run.task_id)


def issue_token(store: Store, claim: Claim, run: Run) -> str:
    """Return a new token for the run, with its depth and the repositories where the run may create tasks."""
    depth, made_by = 0, claim.task.made_by
    while made_by and depth < DEEPEST:
        found = store.tasks.find(Filter(ids=(made_by,)), sort="id", limit=1)
        made_by, depth = (found[0].made_by, depth + 1) if found else ("", DEEPEST)
    repos = rules_of(claim.task).repos
    caller = Caller(task_id=run.task_id, run_id=run.id, epoch=claim.epoch, depth=depth, repos=repos)
    return store.tokens.issue(claim, caller)


def keep_prompt(store: Store, run: Run, text: str) -> None:
    """Record the prompt of a run in a terminal as its first message. Prompts of earlier runs are marked as carried."""
    with store.atomic():
        for each in store.messages.find(run.task_id):
            if each.is_prompt:
                store.messages.mark(each.id, Delivery.CARRIED, store.now(), run.id)
        store.messages.add(Message(id=run.id, task_id=run.task_id, run_id=run.id, text=text, queued_at=store.now()))


def _waiting(store: Store, task_id: str) -> list[Message]:
    """Return messages that a task's agent has not received, including those in prompts that no agent received."""
    found = store.messages.find(task_id)
    unheard: set[str] = set()  # the runs since the last run whose prompt was delivered
    for prompt in filter(lambda each: each.is_prompt, found):
        unheard = set() if prompt.delivered_at is not None else unheard | {prompt.id}
    return [
        each
        for each in found
        if not each.is_prompt
        and (each.state in (Delivery.QUEUED, Delivery.SENT) or (each.carried_at is not None and each.run_id in unheard))
    ]


def mark_carried(store: Store, messages: list[Message], run: Run) -> None:
    """Mark messages as part of the prompt of a run."""
    for message in messages:
        store.messages.mark(message.id, Delivery.CARRIED, store.now(), run.id)


NEW_SESSION = (Ending.CONTEXT_FULL, Ending.START_HANG, Ending.OVER_BUDGET)
#: Findings after which a session that reported success is resumed.
NOT_DONE = (Finding.FAILED_VERIFY, Finding.INCOMPLETE)


def session_to_resume(coder: Coder, run: Run, last: Run | None) -> str:
    """Return the session that a new run resumes. Return "" for a fresh session."""
    if last is None or not last.session or last.ending in NEW_SESSION or last.finding == Finding.FABRICATED:
        return ""
    if last.ending == Ending.FINISHED and last.finding not in NOT_DONE:
        return ""
    if (last.coder, last.account) != (run.coder, run.account):
        return ""
    if not last.notes.get("answered") and not did_resume(last):
        return ""  # the model never answered: some coders do not keep such a session
    if did_resume(last) and last.ending == Ending.FAILED and not last.tool_calls:
        return ""  # the resumed session achieved nothing and may itself be broken
    same_place = last.workspace == run.workspace
    return last.session if coder.resumes == ANYWHERE or (coder.resumes == SAME_CWD and same_place) else ""


def did_resume(run: Run) -> bool:
    """Return True if a run resumed an earlier session."""
    return "before" in run.notes
