"""Answers that people write into Q&A.md directly, and questions that agents repeat."""

from pathlib import Path

import pytest

from supervised import Supervised, home, wait_for

__all__ = ["home"]

ANSWER = "## A: 2026-03-01 12:00\n\nas blue as the sea\n"
NOT_UTF_8 = "\udcff\udcfe"


def artifacts(home: Supervised, key: str) -> Path:
    return home.fleet.home / "tasks" / key / "artifacts"


def add(home: Supervised, key: str, text: str) -> None:
    with (artifacts(home, key) / "Q&A.md").open("a", errors="surrogateescape") as file:
        file.write(text)


@pytest.mark.parametrize("seen", ["by nobody", "by fleet questions"])
def test_answer_in_the_file_reopens_the_task_and_reaches_the_next_run(home: Supervised, seen: str) -> None:
    key = home.create("ask keep=prompt")
    home.start()
    home.wait_status(key, "blocked")
    if seen == "by fleet questions":
        home.stop()
    add(home, key, ANSWER + NOT_UTF_8)
    if seen == "by fleet questions":
        assert "no open questions" in home.fleet("questions").err
        home.start()
    home.wait_status(key, "closed")
    told = (artifacts(home, key) / "told-2").read_text()
    assert "# Answers to your questions" in told and "as blue as the sea" in told
    assert "(Q&A.md)" in home.fleet.ok("questions", "--all")


def test_answer_in_the_file_reaches_the_run_of_a_manually_reopened_task(home: Supervised) -> None:
    key = home.create("ask keep=prompt")
    home.start()
    home.wait_status(key, "blocked")
    home.stop()
    add(home, key, ANSWER)
    home.fleet.ok("bd", "update", key, "--status", "open", "--assignee", "")
    home.start()
    home.wait_status(key, "closed")
    assert "as blue as the sea" in (artifacts(home, key) / "told-2").read_text()


def test_task_stays_blocked_when_one_of_two_questions_is_unanswered(home: Supervised) -> None:
    key = home.create("ask")
    artifacts(home, key).mkdir(mode=0o700, parents=True)
    add(home, key, "## Q: which size?\n")
    home.start()
    home.wait_status(key, "blocked")
    add(home, key, ANSWER)  # below the second question
    shown = home.fleet("questions")
    assert ("which size?" in shown.out, "which colour?" in shown.out) == (True, False)
    assert "`## A:`" in shown.out and str(artifacts(home, key)) in shown.out
    assert home.task(key)["status"] == "blocked"


@pytest.mark.parametrize("way", ["fleet answer", "first", "second"])
def test_one_answer_settles_a_question_that_was_asked_twice(home: Supervised, way: str) -> None:
    key = home.create("ask_twice")
    home.start()
    home.wait_status(key, "blocked")
    page = artifacts(home, key) / "Q&A.md"
    match way:
        case "fleet answer":
            wait_for(lambda: home.runs(key)[0]["ended_at"], "its end", home.describe)
            home.fleet.ok("answer", key, "blue")
        case "first":
            page.write_text(page.read_text().replace("Red?\n", f"Red?\n\n{ANSWER}"))
        case _:
            add(home, key, f"\n{ANSWER}")
    home.wait_status(key, "closed")
    assert len(home.runs(key)) == 2
    assert "no open questions" in home.fleet("questions").err


def test_question_asked_again_after_its_answer_needs_another_answer(home: Supervised) -> None:
    key = home.create("ask_again answers=2")
    home.start()
    for count in (1, 2):
        wait_for(lambda count=count: len(home.runs(key)) == count, "its run", home.describe)  # type: ignore[misc]
        home.wait_status(key, "blocked")
        add(home, key, f"\n{ANSWER}")
    home.wait_status(key, "closed")


@pytest.mark.parametrize("do", ["hand_in", "result_file"])
def test_hand_in_is_not_blocked_by_a_question_of_an_earlier_run(home: Supervised, do: str) -> None:
    key = home.create(do)
    artifacts(home, key).mkdir(mode=0o700, parents=True)
    add(home, key, "## Q: which size?\n")
    home.start()
    home.wait_status(key, "closed")
    assert "no open questions" in home.fleet("questions").err
