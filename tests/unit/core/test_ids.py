"""Ids: as long as the queue needs, in characters that are safe everywhere."""

import pytest

from fleet.core import ids


@pytest.mark.parametrize(
    ("count", "length"),
    [(0, 3), (163, 3), (164, 4), (983, 4), (984, 5), (5_899, 6), (35_390, 7), (212_339, 7), (212_340, 8), (10**9, 8)],
)
def test_ids_grow_with_the_queue_as_in_bd(count: int, length: int) -> None:
    assert ids.name_length(count) == length


@pytest.mark.parametrize(("number", "text"), [(0, "000"), (35, "00z"), (36**3 - 1, "zzz"), (36**3 + 1, "001")])
def test_base36_keeps_the_last_digits(number: int, text: str) -> None:
    assert ids.base36(number, 3) == text


def test_new_ids_are_unique_and_short() -> None:
    made = {ids.new_id("fleet", 8) for _ in range(1_000)}
    assert len(made) == 1_000
    assert all(len(key) == 14 and set(key[6:]) <= set(ids.DIGITS) for key in made)
