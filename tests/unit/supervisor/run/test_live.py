"""Reports of the lookout, stored with the run."""

from datetime import UTC, datetime
from typing import Any

from fleet.core.event import Event, Kind
from fleet.core.jsontext import encode
from fleet.core.run import Run
from fleet.proof.scope.lookout import ScopeFindings
from fleet.supervisor.run.fold import fold
from fleet.supervisor.run.live import MOST_FLAGS, MOST_STRAYED, noted, strayed_in

AT = datetime(2026, 11, 1, tzinfo=UTC)


def a_run(**said: Any) -> Run:
    return Run(id="a/1", task_id="a", number=1, epoch=1, owner="o", workspace="/w", started_at=AT, **said)


def test_certain_violation_is_noted_and_a_possible_one_flagged() -> None:
    run = noted(a_run(folded=encode({"text": "x"})), ScopeFindings(["one"], ["two"], []), "/w")
    assert run.notes == {"text": "x", "strayed": ["one"]}
    assert run.flagged == ["two"]
    again = noted(run, ScopeFindings(["one", "three"], ["two"], []), "/w")
    assert strayed_in(again) == ["one", "three"]
    assert again.flagged == ["two"]


def test_run_without_remarks_is_unchanged() -> None:
    run = a_run(folded=encode({"strayed": ["one"]}))
    assert noted(run, ScopeFindings([], [], []), "/w") is run


def test_note_of_a_denied_action_is_withdrawn() -> None:
    run = a_run(folded=encode({"strayed": ["one", "two"]}))
    assert strayed_in(noted(run, ScopeFindings([], ["one, but was not allowed to"], ["one"]), "/w")) == ["two"]


def test_size_of_notes_is_bounded() -> None:
    many = [str(number) for number in range(100)]
    run = noted(a_run(flags=encode(["earlier"])), ScopeFindings(many, many, []), "/w")
    assert strayed_in(run) == many[:MOST_STRAYED]
    assert run.flagged == ["earlier", *many[: MOST_FLAGS - 1]]


def test_notes_survive_later_folding_and_keep_the_shell_directory() -> None:
    run = noted(a_run(), ScopeFindings(["one"], [], []), "/w/sub")
    run = fold(run, [Event(kind=Kind.TEXT, text="x"), Event(kind=Kind.RESULT, ok=True)], AT)
    assert run.notes["shell"] == "/w/sub"
    assert strayed_in(run) == ["one"]
    assert "shell" not in noted(run, ScopeFindings([], [], []), "/w").notes


def test_damaged_notes_are_ignored() -> None:
    assert strayed_in(a_run(folded=encode({"strayed": "x"}))) == []
