"""Questions of agents, and their answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.clock import to_micros
from fleet.core.errors import AlreadyAnswered, QuestionNotFound
from fleet.core.run import Question
from fleet.store.named_sql import Statements
from fleet.store.sql.records import record_from, storable, values_of

if TYPE_CHECKING:
    from fleet.core.clock import Clock
    from fleet.store.sql_connection import SqlConnection


class SqlQuestions:
    """A row for each question."""

    def __init__(self, connection: SqlConnection, now: Clock) -> None:
        self._db = connection
        self._sql = Statements(connection, "history")
        self._now = now

    def ask(self, question: Question) -> None:
        """Record a question; the same text asked again by the same task while open is one question."""
        with self._db.writing():
            self._sql.rows("insert_question", **values_of(question))

    def answer(self, question_id: str, text: str | None, *, by: str) -> Question:
        """Record an answer, or with None that there will be none: it is withdrawn. The first wins: a second raises
        AlreadyAnswered. Raises QuestionNotFound."""
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
        """One question. Raises QuestionNotFound."""
        for row in self._sql.joined("questions", "question_with_id", id=question_id):
            return record_from(Question, row)
        raise QuestionNotFound(question_id)

    def find(self, *, task_id: str | None = None, unanswered: bool = False) -> list[Question]:
        rows = self._sql.joined("questions", "questions_chosen", task=task_id, unanswered=unanswered)
        return [record_from(Question, row) for row in rows]
