"""Matters that need a person: their order, and the names of tasks in the suggested commands."""

from datetime import datetime
from typing import Any

import pytest

from builders import HOUR, MINUTE, NOON, a_task
from fleet.actions.control.attention import KINDS, Picture, rank_items
from fleet.actions.tasks.names import ANYWHERE, NameScope
from fleet.actions.worktrees.rows import AgentRow
from fleet.core.run import Account, Question, Run
from fleet.core.task import Status


class Here(NameScope):
    """The scope of a person in one repository."""

    repo = "/r"


def row(name: str, *, run: dict[str, Any] | None = None, ended_at: datetime = NOON, **task: Any) -> AgentRow:
    """Return a task that failed, with its run."""
    given = {"branch": name, "repo": "/r", "status": Status.BLOCKED, "reason": "failed twice", **task}
    made = a_task(id=f"fleet-{name}", **given)
    begun = {"started_at": NOON - HOUR, "ended_at": ended_at, **(run or {})}
    return AgentRow(
        made, Run(id=f"{made.id}/1", task_id=made.id, number=1, epoch=1, owner="o", **begun), None, False, NOON
    )


def picture(*rows: AgentRow, **seen: Any) -> Picture:
    return Picture(NOON, {each.task.id: each for each in rows}, **{"questions": (), **seen})


def commands(*rows: AgentRow, scope: NameScope = ANYWHERE) -> list[str]:
    return [each.commands[0] for each in rank_items(picture(*rows), scope)]


def test_attention_rows_are_sorted_by_urgency_and_then_by_age() -> None:
    screen = row("screen", run={"ended_at": None, "screen": "question"}, status=Status.IN_PROGRESS)
    asks = row("asks", reason="the agent asked a question")
    question = Question(id="q", task_id=asks.task.id, asked_at=NOON, text="red?")
    parked = Account(coder="codex", parked_until=NOON + HOUR, parked_reason="plan limit: x")
    late, early = row("late"), row("early", ended_at=NOON - MINUTE)
    seen = picture(
        *(late, early, screen, asks._replace(asks=True)),
        questions=[question],
        parked=[parked],
        login=[parked.replace(name="two")],
        unserved="no supervisor is running: 1 task waiting",
        strays={"fleet-x": "an agent lives"},
    )
    found = [(each.kind, each.name) for each in rank_items(seen, ANYWHERE)]
    assert found == [
        *[("supervisor", "supervisor"), ("question", "asks"), ("dialog", "screen"), ("login", "codex/two")],
        *[("blocked", "early"), ("blocked", "late"), ("parked", "codex"), ("stray", "fleet-x")],
    ]
    assert list(dict(found)) == [kind for kind in KINDS if kind in dict(found)]


@pytest.mark.parametrize("scope", [ANYWHERE, Here()])
def test_command_names_a_branch_only_when_it_means_one_task(scope: NameScope) -> None:
    assert commands(row("work"), scope=scope) == ["fleet retry work"]
    twins = [row("one", branch="same"), row("two", branch="same")]
    assert commands(*twins, scope=scope) == ["fleet retry fleet-one", "fleet retry fleet-two"]


def test_command_names_a_task_of_another_repository_by_its_id() -> None:
    assert commands(row("work", repo="/other"), scope=Here()) == ["fleet retry fleet-work"]


def test_names_in_commands_are_quoted_for_the_shell() -> None:
    assert commands(row("a;reboot")) == ["fleet retry 'a;reboot'"]


def test_each_of_several_questions_is_named_by_its_own_id() -> None:
    asks = row("asks", reason="the agent asked a question")._replace(asks=True)
    asked = [Question(id=f"q-{n}", task_id=asks.task.id, asked_at=NOON, text=f"{n}?") for n in (1, 2)]
    found = [each.commands[0] for each in rank_items(picture(asks, questions=asked), ANYWHERE)]
    assert found == ['fleet answer q-1 "…"', 'fleet answer q-2 "…"']
