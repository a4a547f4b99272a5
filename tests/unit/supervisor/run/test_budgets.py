"""Budgets of a task and its descendants. No dollar is left if a cost is unknown."""

from pathlib import Path
from typing import Any

import pytest

from builders import NOON
from contract.store_builders import a_claim, a_run
from fleet.core.budget import COST, TOKENS
from fleet.core.run import Run
from fleet.core.task import Task
from fleet.home import Home
from fleet.settings import Settings, load
from fleet.supervisor.run.costs import left_of, spent
from stores import open_queue

LIMITS = '{"max_cost_usd": 5, "max_tokens": 9000000}'


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load(Home(str(tmp_path)), env={})


class Family:
    """A task with a budget and its descendants, each with a run."""

    def __init__(self) -> None:
        self.store = open_queue()
        self.top = self.add(coder="claude", model="claude-sonnet-5", cost_usd=1.0, cost_basis="reported")

    def add(self, *, ends: bool = True, **said: Any) -> Task:
        made_by = {"made_by": self.top.id} if hasattr(self, "top") else {"limits": LIMITS}
        claim = a_claim(self.store, **made_by)
        begun = {name: said.pop(name) for name in ("coder", "model")}
        run: Run = self.store.runs.begin(claim, a_run(**begun, launcher="headless")).replace(**said)
        if ends:
            self.store.runs.end(run.replace(ended_at=NOON))
        else:
            self.store.runs.fold(claim, run)
        return claim.task


def test_cost_of_a_family_includes_reported_and_computed_costs(settings: Settings) -> None:
    family = Family()
    family.add(coder="codex", model="gpt-5.5", input_tokens=200_000)  # stored before costs had a basis: $1
    family.add(coder="codex", model="gpt-5.5", input_tokens=7, cost_usd=0.5, cost_basis="computed:2026-11-19")
    left = left_of(family.store, settings, family.top)
    assert left == {COST: 2.5, TOKENS: 8_799_993}


def test_no_dollar_is_left_when_the_cost_of_a_run_is_unknown(settings: Settings) -> None:
    family = Family()
    family.add(coder="codex", model="nobody-knows", input_tokens=7, cost_basis="unknown")
    took = spent(family.store, family.top.id, settings)
    assert (took.unpriced, took.amounts[COST]) == ("nobody-knows", 1.0)
    assert left_of(family.store, settings, family.top)[COST] == 0.0


def test_budget_waits_for_a_running_coder_that_reports_at_its_end(settings: Settings) -> None:
    family = Family()
    family.add(ends=False, coder="claude", model="nobody-knows", input_tokens=7, cost_basis="unknown")
    assert left_of(family.store, settings, family.top)[COST] == 4.0
    family.add(ends=False, coder="codex", model="nobody-knows", input_tokens=7, cost_basis="unknown")
    assert left_of(family.store, settings, family.top)[COST] == 0.0
