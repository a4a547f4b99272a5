"""What every history promises about questions and accounts."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from builders import HOUR, MINUTE, NOON, FakeClock
from contract.history_builders import a_question
from fleet.core.errors import AlreadyAnswered, QuestionNotFound
from fleet.core.run import Account
from fleet.store.base import History, Queue
from fleet.store.sqlite import SqliteQueue
from fleet.store.sqlite_history import SqliteHistory

pytestmark = pytest.mark.bd_in_soak

UNICODE = "ünïcode 🚀 \x00 'quoted\" \\ \n end"
ANSWER = """
import sys
from fleet.core.errors import AlreadyAnswered
from fleet.store.sqlite import SqliteQueue
from fleet.store.sqlite_history import SqliteHistory
history = SqliteHistory(SqliteQueue(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
try:
    print(history.answer("q", sys.argv[2], by=sys.argv[2]).answer)
except AlreadyAnswered as late:
    print("late:", late)
"""


def test_a_question_comes_back_as_it_was(history: History) -> None:
    bare = a_question("t")
    full = a_question("t", UNICODE, run_id="t/1", source="file")
    for question in (bare, full):
        history.ask(question)
        assert history.question(question.id) == question


def test_the_same_question_asked_again_while_open_is_one(history: History) -> None:
    first, second = a_question("t"), a_question("t", asked_at=NOON + HOUR)
    for question in (first, second, first):
        history.ask(question)
    assert history.questions() == [first]
    with pytest.raises(QuestionNotFound):
        history.question(second.id)
    others = [a_question("u", asked_at=NOON + HOUR), a_question("t", "and the size?", asked_at=NOON + 2 * HOUR)]
    for question in others:
        history.ask(question)
    assert history.questions() == [first, *others]
    history.answer(first.id, "red", by="ada")
    history.ask(second)
    assert history.questions(unanswered=True) == [second, *others]


def test_the_first_answer_wins(history: History, clock: FakeClock) -> None:
    question = a_question("t")
    history.ask(question)
    clock.advance(MINUTE)
    answered = history.answer(question.id, UNICODE, by="ada")
    assert answered == question.replace(answer=UNICODE, answered_at=NOON + MINUTE, answered_by="ada")
    with pytest.raises(AlreadyAnswered, match="ada"):
        history.answer(question.id, "blue", by="bob")
    assert history.question(question.id) == answered


def test_an_empty_answer_is_an_answer(history: History) -> None:
    question = a_question("t")
    history.ask(question)
    assert history.answer(question.id, "", by="").answer == ""
    with pytest.raises(AlreadyAnswered):
        history.answer(question.id, "blue", by="bob")
    assert history.questions(unanswered=True) == []


def test_a_question_that_is_withdrawn_waits_for_nobody_and_has_no_answer(history: History) -> None:
    first, again = a_question("t"), a_question("t", asked_at=NOON + HOUR)
    history.ask(first)
    assert not history.question(first.id).is_withdrawn
    gone = history.answer(first.id, None, by="fleet")
    assert gone.is_withdrawn and (gone.answer, gone.answered_by) == (None, "fleet")
    assert history.question(first.id) == gone and history.questions(unanswered=True) == []
    with pytest.raises(AlreadyAnswered, match=f"question {first.id} was withdrawn"):
        history.answer(first.id, "blue", by="bob")
    history.ask(again)
    assert history.questions(unanswered=True) == [again], "the same can be asked again"
    assert not history.answer(again.id, "", by="ada").is_withdrawn


def test_of_two_that_answer_at_once_one_wins(queue: Queue, history: History, tmp_path: Path) -> None:
    def answer(who: str, question_id: str, go: threading.Barrier) -> str:
        own = SqliteQueue(str(tmp_path / "fleet.db")) if isinstance(queue, SqliteQueue) else None
        go.wait(30)
        try:
            return (SqliteHistory(own) if own else history).answer(question_id, who, by=who).answered_by
        except AlreadyAnswered:
            return "late"
        finally:
            if own:
                own.close()

    for _ in range(20):
        question, go = a_question("t"), threading.Barrier(2)
        history.ask(question)
        with ThreadPoolExecutor() as pool:
            answers = [pool.submit(answer, who, question.id, go) for who in ("ada", "bob")]
        winner = history.question(question.id).answered_by
        assert sorted(each.result() for each in answers) == sorted(["late", winner])


def test_of_many_processes_that_answer_at_once_one_wins(tmp_path: Path) -> None:
    path = str(tmp_path / "fleet.db")
    queue = SqliteQueue(path, make=True)
    history = SqliteHistory(queue)
    history.ask(a_question("t", id="q"))
    people = [
        subprocess.Popen(
            [sys.executable, "-c", ANSWER, path, f"p{n}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for n in range(6)
    ]
    for person in people:
        assert person.stdout is not None and person.stdout.readline() == "ready\n"
    for person in people:
        assert person.stdin is not None
        person.stdin.write("go\n")
        person.stdin.flush()
    answers = sorted(person.communicate(timeout=60)[0].strip() for person in people)
    winner = history.question("q").answered_by
    queue.close()
    assert answers == sorted([winner, *[f"late: question q was answered by {winner}"] * 5])


def test_an_unknown_question_is_said_to_be_unknown(history: History) -> None:
    with pytest.raises(QuestionNotFound, match="nope"):
        history.question("nope")
    with pytest.raises(QuestionNotFound, match="nope"):
        history.answer("nope", "red", by="ada")


def test_questions_are_told_oldest_first_of_one_task_or_of_all_answered_or_not(history: History) -> None:
    asked = [
        a_question(task, text, asked_at=NOON - minutes * MINUTE)
        for task, text, minutes in (("t", "a", 0), ("u", "b", 1), ("t", "c", 2), ("t", "d", 2))
    ]
    for question in asked:
        history.ask(question)
    answered = history.answer(asked[2].id, "yes", by="ada")
    assert history.questions() == [answered, asked[3], asked[1], asked[0]]
    assert history.questions(task_id="t") == [answered, asked[3], asked[0]]
    assert history.questions(unanswered=True) == [asked[3], asked[1], asked[0]]
    assert history.questions(task_id="t", unanswered=True) == [asked[3], asked[0]]
    assert history.questions(task_id="") == history.questions(task_id="nope") == []


def test_questions_and_answers_are_taken_back_with_their_transaction(queue: Queue, history: History) -> None:
    question = a_question("t")
    history.ask(question)
    with pytest.raises(ZeroDivisionError), queue.atomic():
        history.answer(question.id, "red", by="ada")
        history.ask(a_question("t", "another"))
        raise ZeroDivisionError
    assert history.questions() == [question]


def test_an_account_is_parked_until_a_moment_and_taken_back(history: History) -> None:
    assert history.accounts() == []
    history.park("codex", "work", until=NOON + MINUTE / 60_000_000, reason=UNICODE)
    history.park("claude", "", until=NOON, reason="five hours")
    codex = Account(coder="codex", name="work", parked_until=NOON + MINUTE / 60_000_000, parked_reason=UNICODE)
    assert history.accounts() == [Account(coder="claude", parked_until=NOON, parked_reason="five hours"), codex]
    history.park("claude", "", until=NOON - HOUR, reason="the last word counts")
    assert history.accounts()[0].parked_until == NOON - HOUR
    history.park("claude", "", until=None, reason="")
    assert history.accounts() == [Account(coder="claude"), codex]


def test_taking_back_what_nobody_parked_makes_no_account(history: History) -> None:
    history.park("claude", "", until=None, reason="for no reason")
    assert history.accounts() == []


def test_parking_is_taken_back_with_its_transaction(queue: Queue, history: History) -> None:
    history.park("claude", "", until=NOON, reason="limit")
    before = history.accounts()
    with pytest.raises(ZeroDivisionError), queue.atomic():
        history.park("claude", "", until=None, reason="")
        history.park("codex", "", until=NOON, reason="limit")
        raise ZeroDivisionError
    assert history.accounts() == before
