"""Values that bd cannot hold are recognized without bd, including every number of a task."""

import pytest

from beads import CHANGED, HELD
from builders import a_task
from fleet.core.bd_limits import MOST_NAMED, faults, number_faults, refusal


@pytest.mark.parametrize("value", HELD)
def test_number_is_accepted_when_a_double_holds_it(value: object) -> None:
    assert not number_faults({"k": value})


@pytest.mark.parametrize("value", CHANGED)
def test_number_is_named_when_bd_would_change_it(value: float) -> None:
    [(fact, remedy)] = number_faults({"k": value}).items()
    assert fact.startswith("metadata k is ") and "as text" in remedy
    assert len(fact) < 200


def test_nested_number_is_found_at_any_depth() -> None:
    assert list(number_faults({"a": 1, "b": {"c": [0, {"d": 2**53 + 1}]}})) == [
        "metadata b.c[1].d is 9007199254740993 and would become 9007199254740992"
    ]


@pytest.mark.parametrize(("title", "size"), [("x" * 500, 0), ("x" * 501, 501), ("ü" * 250, 0), ("🚀" * 126, 504)])
def test_title_length_is_limited_in_bytes(title: str, size: int) -> None:
    said = [f"its title has {size} bytes; the maximum is 500"] if size else []
    assert list(faults(a_task(title=title))) == said


def test_values_that_bd_already_has_are_not_checked() -> None:
    before = a_task(title="ü" * 400, metadata={"ns": 2**64, "other": 1})
    assert len(faults(before)) == 2
    assert not faults(before.replace(notes="n", metadata={"ns": 2**64, "other": 2}), before)
    assert list(faults(before.replace(metadata={"other": 2**53 + 1}), before)) == [
        "metadata other is 9007199254740993 and would become 9007199254740992"
    ]


def test_all_faults_are_named_up_to_a_limit() -> None:
    told = refusal({f"t-{number}": number_faults({"k": 2**64}) for number in range(MOST_NAMED + 3)})
    assert "t-0 (metadata k is 18446744073709551616 and would become 18446744073709552000); t-1 (" in str(told)
    assert str(told).endswith("; 3 more") and told.hint.startswith("nothing was written; write such a number as text")
