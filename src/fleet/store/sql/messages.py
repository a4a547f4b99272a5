"""Messages to agents, their questions with the answers, and the tokens of runs."""

from __future__ import annotations

from os import urandom

from fleet.core import clock
from fleet.core.clock import to_micros
from fleet.core.errors import AlreadyAnswered, QuestionNotFound
from fleet.core.ids import sha256
from fleet.core.jsontext import encode
from fleet.core.run import Message, Question
from fleet.store.named_sql import SqlPort
from fleet.store.sql.records import record_from, storable, values_of
from fleet.store.sql.rows import caller_from

TYPE_CHECKING = False

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from fleet.core.clock import Clock
    from fleet.core.task import Caller, Claim
    from fleet.store.sql.tasks import SqlTasks
    from fleet.store.sql_connection import SqlConnection


class SqlTokens(SqlPort):
    """One row for each token, by its hash."""

    file = "queries"

    def __init__(self, connection: SqlConnection, now: Clock, tasks: SqlTasks) -> None:
        super().__init__(connection)
        self._now = now
        self._tasks = tasks

    def issue(self, claim: Claim, caller: Caller) -> str:
        """Return a new token for the run of this claim. The token is valid until the claim ends. Raises ClaimLost."""
        with self._db.writing(durable=False):
            self._tasks.held(claim)
            token = urandom(32).hex()
            values = {**caller.as_dict(), "repos": encode(caller.repos), "issued_at": clock.to_micros(self._now())}
            self._sql.rows("insert_caller", **values, token_hash=_hash_token(token))
            return token

    def caller(self, token: str) -> Caller | None:
        """Return the live run that got this token, or None."""
        for row in self._sql.rows("caller", token_hash=_hash_token(token)):
            return caller_from(row)
        return None

    def caller_in(self, run_id: str) -> Caller | None:
        """Return the live run with this id, or None. For callers that know the id from a trusted source."""
        known = run_id.encode(errors="replace").decode()  # the id may come from a command line
        for row in self._sql.rows("caller_in", run=known, task=known.rpartition("/")[0]):
            return caller_from(row)
        return None

    def was_issued(self, token: str) -> bool:
        """Return True if this token was ever issued here, valid or not."""
        return bool(self._sql.rows("gave_out", token_hash=_hash_token(token)))


def _hash_token(token: str) -> str:
    return sha256(token.encode(errors="surrogateescape"))


class SqlMessages(SqlPort):
    """One row for each message."""

    file = "history"

    def add(self, message: Message) -> None:
        """Store a message to a task's agent. A message with a known id changes nothing."""
        with self._db.writing():
            self._sql.rows("insert_message", **values_of(message))

    def find(self, task_id: str | None = None, *, state: str | None = None) -> list[Message]:
        """Return the messages of one task or of all, in one state or any, oldest first."""
        blocks = ["messages_of_task"] if task_id is not None else []
        blocks += [f"messages_{state}"] if state is not None else []
        return self._messages(*blocks, task=task_id)

    def mark(self, message_id: str, state: str, at: datetime, run: str) -> bool:
        """Advance a message to a state, with the run involved. Return False if it did not move.

        Messages move only forward; "delivered" and "carried" are final. An unknown message does not move.
        """
        with self._db.writing(durable=False):
            for kept in self._messages("message_with_id", id=message_id):
                moved = kept.marked(state, at, run)
                if moved is not kept:
                    self._sql.rows("move_message", **values_of(moved))
                    return True
        return False

    def _messages(self, *blocks: str, **values: Any) -> list[Message]:
        return [
            record_from(Message, row) for row in self._sql.joined("messages", *blocks, "messages_in_order", **values)
        ]


class SqlQuestions(SqlPort):
    """One row for each question."""

    file = "history"

    def __init__(self, connection: SqlConnection, now: Clock) -> None:
        super().__init__(connection)
        self._now = now

    def ask(self, question: Question) -> None:
        """Store a question. If its task already has an open question with the same text, nothing changes."""
        with self._db.writing():
            self._sql.rows("insert_question", **values_of(question))

    def answer(self, question_id: str, text: str | None, *, by: str) -> Question:
        """Answer a question, or withdraw it if `text` is None. Return the question.

        Only the first answer counts: another call raises AlreadyAnswered. Raises QuestionNotFound.
        """
        with self._db.writing():
            now = to_micros(self._now())
            answer = text if text is None else storable(text)
            self._sql.rows("answer_question", id=question_id, answer=answer, by=by, now=now)
            first = self._db.changes()
            answered = self.get(question_id)
            if not first:
                raise AlreadyAnswered(f"question {question_id} was {answered.end_in_words}")
            return answered

    def get(self, question_id: str) -> Question:
        """Return one question. Raises QuestionNotFound."""
        for row in self._sql.joined("questions", "question_with_id", id=question_id):
            return record_from(Question, row)
        raise QuestionNotFound(question_id)

    def find(self, *, task_id: str | None = None, unanswered: bool = False) -> list[Question]:
        rows = self._sql.joined("questions", "questions_chosen", task=task_id, unanswered=unanswered)
        return [record_from(Question, row) for row in rows]
