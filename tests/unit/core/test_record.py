"""Records: complete when created, immutable, and equal by value."""

import pytest

from fleet.core.record import Record


class Point(Record):
    x: int
    y: int = 0


class Named(Point):
    name: str = ""


def test_record_is_created_from_keywords_and_defaults() -> None:
    assert (Point(x=1).x, Point(x=1).y) == (1, 0)


def test_subclass_has_the_fields_of_its_base_first() -> None:
    assert list(Named(x=1, name="a").as_dict()) == ["x", "y", "name"]


@pytest.mark.parametrize("values", [{}, {"x": 1, "z": 2}])
def test_missing_or_unknown_field_is_refused(values: dict[str, int]) -> None:
    with pytest.raises(TypeError, match="Point"):
        Point(**values)


def test_record_is_frozen() -> None:
    with pytest.raises(AttributeError, match="frozen"):
        Point(x=1).x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match="frozen"):
        del Point(x=1).x


def test_replace_returns_another_record() -> None:
    before = Point(x=1)
    assert before.replace(y=5) == Point(x=1, y=5)
    assert before == Point(x=1)
    with pytest.raises(TypeError, match="Point has no z"):
        before.replace(y=5, z=6)


def test_equal_records_have_equal_hashes_and_show_their_fields() -> None:
    assert hash(Point(x=1, y=2)) == hash(Point(x=1, y=2))
    assert Point(x=1) != Named(x=1)
    assert repr(Point(x=1, y=2)) == "Point(x=1, y=2)"


def test_positional_values_create_the_same_record() -> None:
    assert Point.from_values([1, 2]) == Point(x=1, y=2)
    with pytest.raises(ValueError, match="zip"):
        Point.from_values([1])
