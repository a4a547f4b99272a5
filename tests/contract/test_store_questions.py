"""The contract of all stores for questions."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from builders import HOUR, MINUTE, NOON, FakeClock
from contract.store_builders import a_question
from fleet.core.errors import AlreadyAnswered, QuestionNotFound
from fleet.store.base import Store
from fleet.store.postgres.store import PostgresStore
from fleet.store.sqlite.store import SqliteStore

pytestmark = pytest.mark.bd_in_soak

UNICODE = "ünïcode 🚀 \x00 'quoted\" \\ \n end"
ANSWER = """
import sys
from fleet.core.errors import AlreadyAnswered
from fleet.store.sqlite.store import SqliteStore
store = SqliteStore(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
try:
    print(store.questions.answer("q", sys.argv[2], by=sys.argv[2]).answer)
except AlreadyAnswered as late:
    print("late:", late)
"""


def test_question_is_returned_unchanged(store: Store) -> None:
    bare = a_question("t")
    full = a_question("t", UNICODE, run_id="t/1", source="file")
    for question in (bare, full):
        store.questions.ask(question)
        assert store.questions.get(question.id) == question


def test_repeated_question_is_stored_once_while_it_is_open(store: Store) -> None:
    first, second = a_question("t"), a_question("t", asked_at=NOON + HOUR)
    for question in (first, second, first):
        store.questions.ask(question)
    assert store.questions.find() == [first]
    with pytest.raises(QuestionNotFound):
        store.questions.get(second.id)
    others = [a_question("u", asked_at=NOON + HOUR), a_question("t", "and the size?", asked_at=NOON + 2 * HOUR)]
    for question in others:
        store.questions.ask(question)
    assert store.questions.find() == [first, *others]
    store.questions.answer(first.id, "red", by="ada")
    store.questions.ask(second)
    assert store.questions.find(unanswered=True) == [second, *others]


def test_first_answer_wins(store: Store, clock: FakeClock) -> None:
    question = a_question("t")
    store.questions.ask(question)
    clock.advance(MINUTE)
    answered = store.questions.answer(question.id, UNICODE, by="ada")
    assert answered == question.replace(answer=UNICODE, answered_at=NOON + MINUTE, answered_by="ada")
    with pytest.raises(AlreadyAnswered, match="ada"):
        store.questions.answer(question.id, "blue", by="bob")
    assert store.questions.get(question.id) == answered


def test_empty_answer_is_an_answer(store: Store) -> None:
    question = a_question("t")
    store.questions.ask(question)
    assert store.questions.answer(question.id, "", by="").answer == ""
    with pytest.raises(AlreadyAnswered):
        store.questions.answer(question.id, "blue", by="bob")
    assert store.questions.find(unanswered=True) == []


def test_withdrawn_question_has_no_answer_and_can_be_asked_again(store: Store) -> None:
    first, again = a_question("t"), a_question("t", asked_at=NOON + HOUR)
    store.questions.ask(first)
    assert not store.questions.get(first.id).is_withdrawn
    gone = store.questions.answer(first.id, None, by="fleet")
    assert gone.is_withdrawn and (gone.answer, gone.answered_by) == (None, "fleet")
    assert store.questions.get(first.id) == gone and store.questions.find(unanswered=True) == []
    with pytest.raises(AlreadyAnswered, match=f"question {first.id} was withdrawn"):
        store.questions.answer(first.id, "blue", by="bob")
    store.questions.ask(again)
    assert store.questions.find(unanswered=True) == [again], "the same can be asked again"
    assert not store.questions.answer(again.id, "", by="ada").is_withdrawn


def test_first_answer_wins_when_two_threads_answer_at_once(store: Store, tmp_path: Path) -> None:
    def answer(who: str, question_id: str, go: threading.Barrier) -> str:
        own = None if isinstance(store, PostgresStore) else SqliteStore(str(tmp_path / "fleet.db"))
        go.wait(60)
        try:
            return (own if own else store).questions.answer(question_id, who, by=who).answered_by
        except AlreadyAnswered:
            return "late"
        finally:
            if own:
                own.close()

    for _ in range(20):
        question, go = a_question("t"), threading.Barrier(2)
        store.questions.ask(question)
        with ThreadPoolExecutor() as pool:
            answers = [pool.submit(answer, who, question.id, go) for who in ("ada", "bob")]
        winner = store.questions.get(question.id).answered_by
        assert sorted(each.result() for each in answers) == sorted(["late", winner])


def test_first_answer_wins_when_processes_answer_at_once(tmp_path: Path) -> None:
    path = str(tmp_path / "fleet.db")
    store = SqliteStore(path, make=True)
    store.questions.ask(a_question("t", id="q"))
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
    winner = store.questions.get("q").answered_by
    store.close()
    assert answers == sorted([winner, *[f"late: question q was answered by {winner}"] * 5])


def test_unknown_question_raises_question_not_found(store: Store) -> None:
    with pytest.raises(QuestionNotFound, match="nope"):
        store.questions.get("nope")
    with pytest.raises(QuestionNotFound, match="nope"):
        store.questions.answer("nope", "red", by="ada")


def test_questions_are_returned_oldest_first_by_task_and_state(store: Store) -> None:
    asked = [
        a_question(task, text, asked_at=NOON - minutes * MINUTE)
        for task, text, minutes in (("t", "a", 0), ("u", "b", 1), ("t", "c", 2), ("t", "d", 2))
    ]
    for question in asked:
        store.questions.ask(question)
    answered = store.questions.answer(asked[2].id, "yes", by="ada")
    assert store.questions.find() == [answered, asked[3], asked[1], asked[0]]
    assert store.questions.find(task_id="t") == [answered, asked[3], asked[0]]
    assert store.questions.find(unanswered=True) == [asked[3], asked[1], asked[0]]
    assert store.questions.find(task_id="t", unanswered=True) == [asked[3], asked[0]]
    assert store.questions.find(task_id="") == store.questions.find(task_id="nope") == []


def test_questions_and_answers_are_rolled_back_with_their_transaction(store: Store) -> None:
    question = a_question("t")
    store.questions.ask(question)
    with pytest.raises(ZeroDivisionError), store.atomic():
        store.questions.answer(question.id, "red", by="ada")
        store.questions.ask(a_question("t", "another"))
        raise ZeroDivisionError
    assert store.questions.find() == [question]
