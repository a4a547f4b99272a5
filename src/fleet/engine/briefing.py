"""What a run gets when it starts: its token, the messages for its agent, and the questions about its task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.filter import Filter
from fleet.core.rules import rules_of
from fleet.core.run import Delivery, Message
from fleet.core.task import Caller

if TYPE_CHECKING:
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
