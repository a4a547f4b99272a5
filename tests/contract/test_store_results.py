"""The contract of all stores for the results of tasks."""

import pytest

from builders import HOUR, NOON, FakeClock
from contract.store_builders import a_result
from fleet.store.base import Store

pytestmark = pytest.mark.bd_in_soak


def test_last_result_of_a_task_counts(store: Store, clock: FakeClock) -> None:
    store.results.keep(a_result(body='{"summary": "first"}'))
    last = a_result(run_id="t-1/2", made_at=NOON + HOUR, made_by="fleet", body='{"summary": "ü 🚀"}')
    store.results.keep(last)
    store.results.keep(a_result("t-2"))
    assert store.results.find(["t-1", "t-3"]) == {"t-1": last}
    assert last.told == {"summary": "ü 🚀"}
    assert store.results.find([]) == {}
