"""The contract of all stores for the last events of runs."""

import pytest

from builders import MINUTE, NOON
from fleet.store.base import Store

pytestmark = pytest.mark.bd_in_soak


def test_last_stored_tail_of_a_run_counts(store: Store) -> None:
    assert store.tails.get("t-1/1") is None
    store.tails.keep("t-1/1", "one", NOON)
    store.tails.keep("t-1/1", "two \u2028 🚀 \ud800", NOON + MINUTE)
    kept = store.tails.get("t-1/1")
    assert kept is not None
    assert kept[0].startswith("two \u2028 🚀") and kept[1] == NOON + MINUTE
    assert store.tails.get("t-1/2") is None


def test_tails_older_than_a_time_are_deleted(store: Store) -> None:
    for number in range(4):
        store.tails.keep(f"t-{number}/1", "x", NOON + number * MINUTE)
    assert store.tails.forget(NOON + 2 * MINUTE) == 2
    assert [store.tails.get(f"t-{number}/1") is None for number in range(4)] == [True, True, False, False]
    assert store.tails.forget(NOON) == 0
