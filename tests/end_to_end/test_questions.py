"""Questions and answers: what an agent asks, from the command line and by hand, the first answer winning."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fleet.core.task import Status, Verdict
from live_runs import Store, store

__all__ = ["store"]

QUESTION = "Which colour?\n\nRed would be nice."


def asking(store: Store, *texts: str) -> str:
    """A task that an agent left blocked with questions, in Q&A.md and on record."""
    task = store.create("paint it")
    claim, run = store.begin(task)
    artifacts = store.fleet.home / "tasks" / task / "artifacts"
    artifacts.mkdir(parents=True)
    (artifacts / "Q&A.md").write_text("".join(f"## Q: {text}\n\n" for text in texts))
    for number, text in enumerate(texts, 1):
        store.ask(task, text, f"q{number}")
    store.end(claim, run, "blocked", Verdict(status=Status.BLOCKED, reason="the agent asks a person"))
    return task


def qa(store: Store, task: str) -> Path:
    return store.fleet.home / "tasks" / task / "artifacts" / "Q&A.md"


def test_a_question_is_listed_answered_and_over(store: Store) -> None:
    task = asking(store, QUESTION)
    assert "Which colour?" in store.fleet.ok("questions")
    (row,) = json.loads(store.fleet.ok("questions", "--json"))
    assert (row["id"], row["task"], row["text"], row["waits"]) == ("q1", task, QUESTION, True)
    assert store.fleet.ok("answer", "q1", "blue,", "please", BEADS_ACTOR="ada") == f"answered q1: {task} is open\n"
    found = store.queue.get(task)
    assert (found.status, found.assignee) == (Status.OPEN, "")
    asked = store.history.question("q1")
    assert (asked.answer, asked.answered_by) == ("blue, please", "ada")
    text = qa(store, task).read_text()
    assert text.index("## Q: Which colour?") < text.index("## A: 2") < text.index("blue, please")
    assert store.fleet("questions").out == ""
    (row,) = json.loads(store.fleet.ok("questions", "--all", "--json"))
    assert (row["waits"], row["answer"], row["answered_by"]) == (False, "blue, please", "ada")


def test_the_task_will_do_and_the_text_may_come_from_stdin(store: Store) -> None:
    task = asking(store, QUESTION)
    store.fleet.ok("answer", task, stdin="two\nlines\n")
    assert store.history.question("q1").answer == "two\nlines"
    assert store.claim(task).task.id == task


def test_an_empty_answer_is_refused_and_changes_nothing(store: Store) -> None:
    task = asking(store, QUESTION)
    assert store.fleet("answer", task, "  ").code == 1
    assert store.fleet("answer", task, stdin="\n").code == 1
    assert "## A:" not in qa(store, task).read_text() and store.queue.get(task).status == Status.BLOCKED


def test_the_first_answer_wins(store: Store) -> None:
    asking(store, QUESTION)
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda word: store.fleet("answer", "q1", word), ("red", "blue", "green", "black")))
    assert sorted(each.code for each in done) == [0, 1, 1, 1]
    assert all("was answered" in each.err for each in done if each.code)
    task = store.history.question("q1").task_id
    assert qa(store, task).read_text().count("## A:") == 1


def test_a_task_with_several_questions_goes_on_after_the_last_answer(store: Store) -> None:
    task = asking(store, "Which colour?", "Which size?")
    unclear = store.fleet("answer", task, "blue")
    assert unclear.code == 2 and "q1, q2" in unclear.err
    assert store.fleet.ok("answer", "q1", "blue") == f"answered q1: {task} is blocked; 1 more to answer\n"
    assert store.fleet.ok("answer", task, "large") == f"answered q2: {task} is open\n"
    text = qa(store, task).read_text()
    assert text.index("blue") < text.index("Which size?") < text.index("large")


def test_answering_by_hand_works_as_documented(store: Store) -> None:
    task = asking(store, QUESTION)
    with qa(store, task).open("a") as file:
        file.write("## A: 2026-03-01 12:00\n\nblue\n")
    late = store.fleet("answer", "q1", "red")
    assert late.code == 1 and "answered by Q&A.md" in late.err
    assert store.fleet("questions").out == ""
    assert (store.history.question("q1").answer, store.queue.get(task).status) == ("blue", Status.OPEN)
    store.fleet.ok("bd", "update", task, "--status", "open", "--assignee", "")
    assert store.claim(task).task.id == task


def test_what_asks_nothing_or_is_nothing_is_said(store: Store) -> None:
    task = store.create("a task")
    assert f"{task} asks nothing" in store.fleet("answer", task, "yes").err
    assert "no question 'nope'" in store.fleet("answer", "nope", "yes").err
    assert "nobody asks anything" in store.fleet("questions").err


def test_a_question_cannot_drive_the_terminal(store: Store) -> None:
    asking(store, "Which \x1b[2Jcolour?")
    out = store.fleet.ok("questions")
    assert "\x1b" not in out and "\\x1b[2Jcolour?" in out
