"""Budgets that several runs share: their exhaustion and their rest."""

import pytest

from fleet.core.budget import COST, TOKENS, Budget, Spent, check_budgets, left_in
from fleet.core.run import Ending

TOP = Budget(task_id="top", amounts={COST: 5.0})
MAKER = Budget(task_id="maker", amounts={COST: 2.0, TOKENS: 1_000})


def spent(cost: float, tokens: float = 0.0, unpriced: str = "") -> Spent:
    return Spent(amounts={COST: cost, TOKENS: tokens}, unpriced=unpriced)


def test_check_budgets_stops_nothing_below_every_budget() -> None:
    assert check_budgets([(TOP, spent(4.99)), (MAKER, spent(1.99, 999))]) is None


@pytest.mark.parametrize(
    ("maker", "words"),
    [
        (spent(2.0), "maker and its tasks used $2.00 of $2.00 allowed"),
        (spent(0.0, 1_000), "maker and its tasks used 1000 tokens of 1000 tokens allowed"),
        (spent(0.0, unpriced="new-model"), "no price for new-model: set [prices] or use a token budget"),
    ],
)
def test_check_budgets_names_the_budget_when_it_is_used_up(maker: Spent, words: str) -> None:
    outcome = check_budgets([(TOP, spent(0.0)), (MAKER, maker)])
    assert outcome is not None
    assert (outcome.ending, outcome.reason) == (Ending.OVER_BUDGET, words)


def test_check_budgets_ignores_unknown_prices_when_only_tokens_are_limited() -> None:
    tokens = Budget(task_id="top", amounts={TOKENS: 10})
    assert check_budgets([(tokens, spent(0.0, 9, unpriced="new-model"))]) is None


def test_left_in_returns_the_tightest_rest_of_each_limit() -> None:
    assert left_in([(TOP, spent(4.5)), (MAKER, spent(0.25, 400))]) == {COST: 0.5, TOKENS: 600}
    assert left_in([]) == {}


def test_left_in_leaves_no_dollar_when_a_price_is_unknown() -> None:
    assert left_in([(TOP, spent(0.0, unpriced="new-model"))]) == {COST: 0.0}
