"""Questions and answers: an agent asks, a person answers by command or in the file, and the first answer wins."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fleet.core.task import Status, Verdict
from live_runs import Records, records

__all__ = ["records"]

QUESTION = "Which colour?\n\nRed would be nice."


def asking(records: Records, *texts: str) -> str:
    """Return a task that an agent left blocked with questions, in Q&A.md and on record."""
    task = records.create("paint it")
    claim, run = records.begin(task)
    artifacts = records.fleet.home / "tasks" / task / "artifacts"
    artifacts.mkdir(parents=True)
    (artifacts / "Q&A.md").write_text("".join(f"## Q: {text}\n\n" for text in texts))
    for number, text in enumerate(texts, 1):
        records.ask(task, text, f"q{number}")
    records.end(claim, run, "blocked", Verdict(status=Status.BLOCKED, reason="the agent asked a question"))
    return task


def qa(records: Records, task: str) -> Path:
    return records.fleet.home / "tasks" / task / "artifacts" / "Q&A.md"


def test_question_is_listed_and_answered(records: Records) -> None:
    task = asking(records, QUESTION)
    assert "Which colour?" in records.fleet.ok("questions")
    (row,) = json.loads(records.fleet.ok("questions", "--json"))
    assert (row["id"], row["task"], row["text"], row["waits"]) == ("q1", task, QUESTION, True)
    assert records.fleet.ok("answer", "q1", "blue,", "please", BEADS_ACTOR="ada") == f"answered q1: {task} is open\n"
    found = records.store.tasks.get(task)
    assert (found.status, found.assignee) == (Status.OPEN, "")
    asked = records.store.questions.get("q1")
    assert (asked.answer, asked.answered_by) == ("blue, please", "ada")
    text = qa(records, task).read_text()
    assert text.index("## Q: Which colour?") < text.index("## A: 2") < text.index("blue, please")
    assert records.fleet("questions").out == ""
    (row,) = json.loads(records.fleet.ok("questions", "--all", "--json"))
    assert (row["waits"], row["answer"], row["answered_by"]) == (False, "blue, please", "ada")


def test_answer_accepts_a_task_id_and_text_from_stdin(records: Records) -> None:
    task = asking(records, QUESTION)
    records.fleet.ok("answer", task, stdin="two\nlines\n")
    assert records.store.questions.get("q1").answer == "two\nlines"
    assert records.claim(task).task.id == task


def test_empty_answer_is_refused_and_changes_nothing(records: Records) -> None:
    task = asking(records, QUESTION)
    assert records.fleet("answer", task, "  ").code == 1
    assert records.fleet("answer", task, stdin="\n").code == 1
    assert "## A:" not in qa(records, task).read_text() and records.store.tasks.get(task).status == Status.BLOCKED


def test_first_answer_wins(records: Records) -> None:
    asking(records, QUESTION)
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda word: records.fleet("answer", "q1", word), ("red", "blue", "green", "black")))
    assert sorted(each.code for each in done) == [0, 1, 1, 1]
    assert all("was answered" in each.err for each in done if each.code)
    task = records.store.questions.get("q1").task_id
    assert qa(records, task).read_text().count("## A:") == 1


def test_task_with_several_questions_reopens_after_the_last_answer(records: Records) -> None:
    task = asking(records, "Which colour?", "Which size?")
    unclear = records.fleet("answer", task, "blue")
    assert unclear.code == 2 and "q1, q2" in unclear.err
    assert records.fleet.ok("answer", "q1", "blue") == f"answered q1: {task} is blocked; 1 more open\n"
    assert records.fleet.ok("answer", task, "large") == f"answered q2: {task} is open\n"
    text = qa(records, task).read_text()
    assert text.index("blue") < text.index("Which size?") < text.index("large")


def test_answer_written_into_the_file_counts(records: Records) -> None:
    task = asking(records, QUESTION)
    with qa(records, task).open("a") as file:
        file.write("## A: 2026-03-01 12:00\n\nblue\n")
    late = records.fleet("answer", "q1", "red")
    assert late.code == 1 and "answered by Q&A.md" in late.err
    assert records.fleet("questions").out == ""
    assert (records.store.questions.get("q1").answer, records.store.tasks.get(task).status) == ("blue", Status.OPEN)
    records.fleet.ok("bd", "update", task, "--status", "open", "--assignee", "")
    assert records.claim(task).task.id == task


def test_answer_reports_when_nothing_was_asked(records: Records) -> None:
    task = records.create("a task")
    assert f"{task} has no open question" in records.fleet("answer", task, "yes").err
    assert "no question 'nope'" in records.fleet("answer", "nope", "yes").err
    assert "no open questions" in records.fleet("questions").err


def test_number_answers_with_the_option_of_the_question(records: Records) -> None:
    task = asking(records, "Which colour?\n\n1. red\n2. blue")
    (row,) = json.loads(records.fleet.ok("questions", "--json"))
    assert row["options"] == [{"number": 1, "text": "red"}, {"number": 2, "text": "blue"}]
    told = json.loads(records.fleet.ok("answer", task, "2", "--json"))
    assert (told["kind"], told["answer"], told["task_status"]) == ("question", "2. blue", "open")


def test_show_prints_the_open_question(records: Records) -> None:
    task = asking(records, QUESTION)
    shown = records.fleet.ok("show", task)
    assert "waits for you:" in shown and "Which colour?" in shown and "fleet answer q1 TEXT" in shown
    (told,) = json.loads(records.fleet.ok("show", task, "--json"))
    assert [each["id"] for each in told["waits_for"]] == ["q1"]


def test_question_cannot_control_the_terminal(records: Records) -> None:
    asking(records, "Which \x1b[2Jcolour?")
    out = records.fleet.ok("questions")
    assert "\x1b" not in out and "\\x1b[2Jcolour?" in out
