"""The contract of all stores outside of their ports."""

import pytest

from builders import HOUR, NOON, FakeClock
from fleet.store.base import Store


@pytest.mark.bd_in_soak
def test_store_uses_the_clock_that_it_was_given(store: Store, clock: FakeClock) -> None:
    clock.advance(HOUR)
    assert store.now() == NOON + HOUR


@pytest.mark.bd_in_soak
def test_store_can_be_closed_twice(store: Store) -> None:
    store.close()
    store.close()
