"""Recordings of real coders: how the run ended, its usage, and the limit to wait for."""

import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from contract.coder_recordings import expectations, lines_of, recorded_coders, scenarios, the_outcome, the_run
from fleet.coders import CODERS, load
from fleet.core.finding import Evidence, judge_evidence
from fleet.core.outcome import Exit

RECORDED = [(coder, scenario) for coder in recorded_coders() for scenario in scenarios(coder)]
#: The expected values that are columns of the run.
COLUMNS = (
    *("session", "tool_calls", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"),
    *("context_peak", "context_window"),
)
GIVEN = ("exit_status", "exit_signal", "stderr")
OF_THE_OUTCOME = ("ending", "reason", "limit", "resets_at", "finding")


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the time zone to UTC, because some coders print local clock times."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("name", recorded_coders())
def test_each_recording_has_expected_values(name: str) -> None:
    assert name in CODERS
    assert sorted(expectations(name)) == scenarios(name)
    for scenario, expected in expectations(name).items():
        assert {"exit_status", "ending"} <= expected.keys(), scenario
        assert expected.keys() <= {*GIVEN, *OF_THE_OUTCOME, *COLUMNS, "cost_usd"}, scenario


@pytest.mark.parametrize(("name", "scenario"), RECORDED, ids=["-".join(each) for each in RECORDED])
def test_recorded_run_yields_the_expected_values(name: str, scenario: str) -> None:
    coder, expected = load(name), expectations(name)[scenario]
    stderr = expected.get("stderr", "")
    exit = Exit(status=expected["exit_status"], signal=expected.get("exit_signal"))
    run = the_run(coder, lines_of(name, scenario), exit, stderr)
    outcome = the_outcome(coder, run, exit, stderr=stderr)
    assert outcome.ending == expected["ending"], outcome.reason
    assert {key: getattr(run, key) for key in COLUMNS if key in expected} == {
        key: expected[key] for key in COLUMNS if key in expected
    }
    if "cost_usd" in expected:
        assert run.cost_usd == (None if expected["cost_usd"] is None else pytest.approx(expected["cost_usd"]))
    assert expected.get("reason", "") in outcome.reason
    seen = Evidence(ending=outcome.ending, tool_calls=outcome.tool_calls, tells_tools=coder.tells_tools)
    if outcome.ending == "finished":
        assert judge_evidence(seen).finding == expected.get("finding", "unverified")
    if "limit" in expected:
        assert (outcome.limit or None) == expected["limit"]
    if "resets_at" in expected:
        told = expected["resets_at"]
        assert outcome.resume_at == (datetime.fromisoformat(told) if told else None)
