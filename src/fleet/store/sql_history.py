"""The history beside a queue in an SQL database: the same connection and transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.clock import to_micros
from fleet.core.errors import AlreadyAnswered, ClaimLost, QuestionNotFound
from fleet.store.run_rules import MOST_TOKENS, MOST_USD, begun, left_over, taken_by
from fleet.store.sql_history_rows import (
    account_from,
    message_from,
    question_from,
    quota_from,
    run_from,
    storable,
    total_from,
    values_of,
)
from fleet.store.sql_hosts import SqlHosts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from typing import Any

    from fleet.core.run import Account, AccountTotal, Message, Question, Quota, Run
    from fleet.core.task import Claim

_BEFORE_ALL = -(2**63)


class SqlHistory(SqlHosts):
    """All of it in the queue's database; whatever is written inside `queue.atomic()` is part of it."""

    def begin(self, claim: Claim, run: Run) -> Run:
        with self._db.writing():
            earlier = self.runs(claim.task.id)
            run = begun(run, claim, earlier)
            self._rows("name_in_task", run=run.id, task=run.task_id, owner=run.owner, epoch=run.epoch)
            if not self._db.changes():
                raise ClaimLost(run.task_id, run.epoch)
            for each in earlier:
                if each.is_live:
                    self.end(left_over(each, self._now()))
            self._db.rows(self._sql["insert_run"], values_of(run))
            if run.coder:
                used = {"coder": storable(run.coder), "name": storable(run.account)}
                self._rows("note_use", **used, used_at=to_micros(run.started_at))
            return run

    def fold(self, claim: Claim, run: Run) -> None:
        if self.fold_all([(claim, run)]):
            raise ClaimLost(claim.task.id, claim.epoch)

    def fold_all(self, pairs: Sequence[tuple[Claim, Run]]) -> list[str]:
        lost = []
        # Not durable: after a power cut there is no agent left to go on reading, and a kill loses nothing.
        with self._db.writing(durable=False, alone=False):
            for claim, run in pairs:
                fence = {"task": claim.task.id, "owner": claim.owner, "epoch": claim.epoch}
                self._db.rows(self._sql["fold_run"], values_of(run) | fence)
                if not self._db.changes():
                    lost.append(run.id)
        return lost

    def end(self, run: Run) -> None:
        ended = run if run.ended_at else run.replace(ended_at=self._now())
        with self._db.writing():
            self._db.rows(self._sql["end_run"], values_of(ended))
            if self._db.changes():
                self._add_to_totals(ended)
                return
            kept = self.run(run.id)
            if kept is None or kept.is_live:
                raise ClaimLost(run.task_id, run.epoch)

    def run(self, run_id: str) -> Run | None:
        return next(iter(self._runs("with_id", id=run_id)), None)

    def runs(self, task_id: str) -> list[Run]:
        return self._runs("of_task", task=task_id)

    def last_runs(self, task_ids: Sequence[str]) -> dict[str, Run]:
        return {run.task_id: run for run in self._runs("last_of_tasks", ids=self._db.listed(task_ids))}

    def live(self, owner: str | None = None) -> list[Run]:
        return self._runs("live") if owner is None else self._runs("live_of_owner", owner=owner)

    def ended(self, *, before: datetime, after: tuple[datetime, str] | None = None, limit: int) -> list[Run]:
        at, run_id = (to_micros(after[0]), after[1]) if after else (_BEFORE_ALL, "")
        return self._runs("ended", before=to_micros(before), after=at, after_id=run_id, limit=limit)

    def ask(self, question: Question) -> None:
        with self._db.writing():
            self._db.rows(self._sql["insert_question"], values_of(question))

    def answer(self, question_id: str, text: str | None, *, by: str) -> Question:
        with self._db.writing():
            now = to_micros(self._now())
            self._rows(
                "answer_question", id=question_id, answer=text if text is None else storable(text), by=by, now=now
            )
            first = self._db.changes()
            answered = self.question(question_id)
            if not first:
                raise AlreadyAnswered(f"question {question_id} was {answered.end_in_words}")
            return answered

    def question(self, question_id: str) -> Question:
        for row in self._db.rows(f"{self._sql['questions']} {self._sql['question_with_id']}", {"id": question_id}):
            return question_from(row)
        raise QuestionNotFound(question_id)

    def questions(self, *, task_id: str | None = None, unanswered: bool = False) -> list[Question]:
        values = {"task": task_id, "unanswered": unanswered}
        return [
            question_from(row)
            for row in self._db.rows(f"{self._sql['questions']} {self._sql['questions_chosen']}", values)
        ]

    def accounts(self) -> list[Account]:
        return [account_from(row) for row in self._rows("accounts")]

    def park(self, coder: str, name: str, *, until: datetime | None, reason: str) -> None:
        with self._db.writing():
            if until is None:
                self._rows("unpark", coder=coder, name=name)
            else:
                self._rows("park", coder=coder, name=name, until=to_micros(until), reason=storable(reason))

    def note_account(self, coder: str, name: str, *, strikes: int) -> None:
        with self._db.writing():
            self._rows("note_strikes", coder=coder, name=name, strikes=strikes)

    def account_totals(self) -> list[AccountTotal]:
        return [total_from(row) for row in self._rows("account_totals")]

    def note_quotas(self, seen: Sequence[Quota]) -> None:
        with self._db.writing(durable=False):
            known = {(each.coder, each.account, each.span): each for each in self.quotas()}
            for each in seen:
                key = tuple(map(storable, (each.coder, each.account, each.span)))
                self._db.rows(self._sql["keep_quota"], values_of(known[key].then(each) if key in known else each))

    def quotas(self) -> list[Quota]:
        return [quota_from(row) for row in self._rows("quotas")]

    def say(self, message: Message) -> None:
        with self._db.writing():
            self._db.rows(self._sql["insert_message"], values_of(message))

    def messages(self, task_id: str | None = None, *, state: str | None = None) -> list[Message]:
        blocks = ["messages_of_task"] if task_id is not None else []
        blocks += [f"messages_{state}"] if state is not None else []
        return self._messages(*blocks, task=task_id)

    def mark_message(self, message_id: str, state: str, at: datetime, run: str) -> bool:
        with self._db.writing(durable=False):
            for kept in self._messages("message_with_id", id=message_id):
                moved = kept.marked(state, at, run)
                if moved is not kept:
                    self._db.rows(self._sql["move_message"], values_of(moved))
                    return True
        return False

    def _messages(self, *blocks: str, **values: Any) -> list[Message]:
        sql = " ".join(self._sql[block] for block in ("messages", *blocks, "messages_in_order"))
        return [message_from(row) for row in self._db.rows(sql, values)]

    def _add_to_totals(self, run: Run) -> None:
        taken = taken_by(run)
        self._rows(
            "add_to_totals",
            coder=storable(taken.coder),
            account=storable(taken.account),
            tokens=taken.tokens,
            cost_usd=taken.cost_usd,
            most_tokens=MOST_TOKENS,
            most_usd=MOST_USD,
        )

    def _runs(self, condition: str, **values: Any) -> list[Run]:
        return [run_from(row) for row in self._db.rows(f"{self._sql['runs']} {self._sql[condition]}", values)]

    def _rows(self, block: str, **values: Any) -> list[tuple[Any, ...]]:
        return self._db.rows(self._sql[block], values)

    @property
    def _sql(self) -> dict[str, str]:
        return self._db.blocks("history")
