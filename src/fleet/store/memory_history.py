"""The history beside the queue in memory: for simulations and tests, with the same promises as the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.errors import AlreadyAnswered, ClaimLost, QuestionNotFound
from fleet.core.run import Account
from fleet.store.memory_hosts import MemoryHosts
from fleet.store.run_rules import added, begun, left_over, taken_by

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from typing import Any

    from fleet.core.run import AccountTotal, Message, Question, Quota, Run
    from fleet.core.task import Claim

_BEGUN_WITH = ("id", "task_id", "number", "epoch", "owner", "started_at")
_ENDED_WITH = ("ended_at", "ending", "reason", "resume_at", "exit_status", "exit_signal", "finding", "receipt")


class MemoryHistory(MemoryHosts):
    """Runs, questions, messages and accounts in the queue's state: its transactions take them back too.

    Their dictionaries are replaced, never changed: the copy that a transaction keeps is a shallow one.
    """

    def begin(self, claim: Claim, run: Run) -> Run:
        with self._queue.atomic():
            if not self._holds(claim):
                raise ClaimLost(claim.task.id, claim.epoch)
            earlier = self.runs(claim.task.id)
            run = begun(run, claim, earlier)
            for each in earlier:
                if each.is_live:
                    self.end(left_over(each, self._queue.now()))
            self._put(run)
            if run.coder:
                self._note(run.coder, run.account, used_at=run.started_at)
            self._queue.save(self._queue.get(run.task_id).replace(run_id=run.id))
            return run

    def fold(self, claim: Claim, run: Run) -> None:
        if self.fold_all([(claim, run)]):
            raise ClaimLost(claim.task.id, claim.epoch)

    def fold_all(self, pairs: Sequence[tuple[Claim, Run]]) -> list[str]:
        folded, lost = [], []
        with self._queue.atomic():
            for claim, run in pairs:
                if kept := self._kept(claim, run):
                    folded.append(kept.replace(**_without(run, *_BEGUN_WITH, *_ENDED_WITH)))
                else:
                    lost.append(run.id)
            self._put(*folded)
        return lost

    def end(self, run: Run) -> None:
        with self._queue.atomic():
            kept = self.run(run.id)
            if kept is not None and not kept.is_live:
                return
            if kept is None or (kept.owner, kept.epoch) != (run.owner, run.epoch):
                raise ClaimLost(run.task_id, run.epoch)
            changes = {**_without(run, *_BEGUN_WITH), "ended_at": run.ended_at or self._queue.now()}
            ended = kept.replace(**changes)
            self._put(ended)
            taken = taken_by(ended)
            key = (taken.coder, taken.account)
            known = self._queue.state.totals
            self._queue.state.totals = {**known, key: added(known[key], taken) if key in known else taken}

    def run(self, run_id: str) -> Run | None:
        return self._queue.state.runs.get(run_id)

    def runs(self, task_id: str) -> list[Run]:
        found = [run for run in self._queue.state.runs.values() if run.task_id == task_id]
        return sorted(found, key=lambda run: run.number)

    def last_runs(self, task_ids: Sequence[str]) -> dict[str, Run]:
        return {key: runs[-1] for key in task_ids if (runs := self.runs(key))}

    def live(self, owner: str | None = None) -> list[Run]:
        found = [run for run in self._queue.state.runs.values() if run.is_live and owner in (None, run.owner)]
        return sorted(found, key=lambda run: (run.started_at, run.task_id, run.number))

    def ended(self, *, before: datetime, after: tuple[datetime, str] | None = None, limit: int) -> list[Run]:
        over = [((run.ended_at, run.id), run) for run in self._queue.state.runs.values() if run.ended_at is not None]
        found = [each for each in over if each[0][0] < before and (after is None or each[0] > after)]
        return [run for _, run in sorted(found, key=lambda each: each[0])[:limit]]

    def ask(self, question: Question) -> None:
        with self._queue.atomic():
            waiting = self.questions(task_id=question.task_id, unanswered=True)
            asked = self._queue.state.questions
            if question.id not in asked and all(each.text != question.text for each in waiting):
                self._queue.state.questions = {**asked, question.id: question}

    def answer(self, question_id: str, text: str | None, *, by: str) -> Question:
        with self._queue.atomic():
            asked = self.question(question_id)
            if asked.answered_at is not None:
                raise AlreadyAnswered(f"question {question_id} was {asked.end_in_words}")
            answered = asked.replace(answer=text, answered_at=self._queue.now(), answered_by=by)
            self._queue.state.questions = {**self._queue.state.questions, question_id: answered}
            return answered

    def question(self, question_id: str) -> Question:
        try:
            return self._queue.state.questions[question_id]
        except KeyError:
            raise QuestionNotFound(question_id) from None

    def questions(self, *, task_id: str | None = None, unanswered: bool = False) -> list[Question]:
        found = [
            each
            for each in self._queue.state.questions.values()
            if task_id in (None, each.task_id) and not (unanswered and each.answered_at)
        ]
        return sorted(found, key=lambda each: (each.asked_at, each.id))

    def accounts(self) -> list[Account]:
        return [account for _, account in sorted(self._queue.state.accounts.items())]

    def park(self, coder: str, name: str, *, until: datetime | None, reason: str) -> None:
        with self._queue.atomic():
            if until is not None:
                self._note(coder, name, parked_until=until, parked_reason=reason)
            elif (coder, name) in self._queue.state.accounts:
                self._note(coder, name, parked_until=None, parked_reason="")

    def note_account(self, coder: str, name: str, *, strikes: int) -> None:
        with self._queue.atomic():
            self._note(coder, name, strikes=strikes)

    def account_totals(self) -> list[AccountTotal]:
        return [total for _, total in sorted(self._queue.state.totals.items())]

    def note_quotas(self, seen: Sequence[Quota]) -> None:
        with self._queue.atomic():
            known = dict(self._queue.state.quotas)
            for each in seen:
                key = (each.coder, each.account, each.span)
                known[key] = known[key].then(each) if key in known else each
            self._queue.state.quotas = known

    def quotas(self) -> list[Quota]:
        return [quota for _, quota in sorted(self._queue.state.quotas.items())]

    def say(self, message: Message) -> None:
        with self._queue.atomic():
            self._queue.state.messages = {message.id: message, **self._queue.state.messages}

    def messages(self, task_id: str | None = None, *, state: str | None = None) -> list[Message]:
        said = self._queue.state.messages.values()
        found = [each for each in said if task_id in (None, each.task_id) and state in (None, each.state)]
        return sorted(found, key=lambda each: (each.queued_at, each.id))

    def mark_message(self, message_id: str, state: str, at: datetime, run: str) -> bool:
        with self._queue.atomic():
            kept = self._queue.state.messages.get(message_id)
            moved = kept.marked(state, at, run) if kept else None
            if moved is None or moved is kept:
                return False
            self._queue.state.messages = {**self._queue.state.messages, message_id: moved}
            return True

    def _note(self, coder: str, name: str, **facts: Any) -> None:
        known = self._queue.state.accounts
        account = known.get((coder, name)) or Account(coder=coder, name=name)
        self._queue.state.accounts = {**known, (coder, name): account.replace(**facts)}

    def _holds(self, claim: Claim) -> bool:
        task = self._queue.state.tasks.get(claim.task.id)
        return task is not None and (task.claim_owner, task.epoch) == (claim.owner, claim.epoch)

    def _kept(self, claim: Claim, run: Run) -> Run | None:
        """The live run on record, if this claim is still the one it is under."""
        kept = self.run(run.id)
        if kept is None or not kept.is_live or not self._holds(claim):
            return None
        same = (kept.task_id, kept.owner, kept.epoch) == (claim.task.id, claim.owner, claim.epoch)
        return kept if same else None

    def _put(self, *runs: Run) -> None:
        self._queue.state.runs = {**self._queue.state.runs, **{run.id: run for run in runs}}


def _without(run: Run, *names: str) -> dict[str, Any]:
    return {name: value for name, value in run.as_dict().items() if name not in names}
