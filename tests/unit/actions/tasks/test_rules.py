"""The rules of a task, as its creator gives them."""

import pytest

from fleet.actions.tasks.rules import changed, checked, rules
from fleet.core.errors import BadInput
from fleet.core.rules import Rules, rules_in


def test_rules_survive_a_round_trip_and_no_rules_are_empty_text() -> None:
    said = rules(allow=["src/", "src/"], protect=["*.lock"], fail_to_pass=True)
    assert rules_in(said.text()) == Rules(allow=("src/",), protect=("*.lock",), fail_to_pass=True)
    assert rules().text() == ""


def test_change_keeps_unmentioned_rules() -> None:
    before = rules(allow=["src/"], no_changes=True).text()
    assert rules_in(changed(before, rules(allow=["docs/"]))) == Rules(allow=("docs/",), no_changes=True)
    assert rules_in(changed(before, rules(no_changes=False))) == Rules(allow=("src/",), no_changes=False)


@pytest.mark.parametrize("glob", ["", "/", ".", " ", "../x", "a/../b", "a\nb", "a\0b", "x" * 301])
def test_empty_or_escaping_glob_is_refused(glob: str) -> None:
    with pytest.raises(BadInput):
        rules(allow=[glob])
    with pytest.raises(BadInput):
        rules(protect=[glob])


def test_too_many_globs_are_refused() -> None:
    with pytest.raises(BadInput, match="the maximum is 100"):
        rules(allow=[f"f{number}" for number in range(101)])


@pytest.mark.parametrize("number", ["501", "1e9", "-1", "NaN"])
def test_rules_are_refused_when_a_number_is_beyond_its_bounds(number: str) -> None:
    text = f'{{"retries": {number}, "no_changes": true}}'
    with pytest.raises(BadInput, match=r"retries is .* the range is 0 to 500"):
        checked(text)
    assert 0 <= (rules_in(text).retries or 0) <= 500
    assert rules_in(changed(text, rules(allow=["src/"]))).allow == ("src/",), "a task of an earlier fleet has it"


@pytest.mark.parametrize("text", ["[]", "3", "no", '{"allow": "src"}', '{"fail_to_pass": 1}', '{"allow": ["../x"]}'])
def test_rules_of_a_wrong_shape_are_refused(text: str) -> None:
    with pytest.raises(BadInput):
        checked(text)
