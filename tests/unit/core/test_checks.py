"""Valid values of a task's fields."""

import pytest

from fleet.core import checks
from fleet.core.errors import BadInput


@pytest.mark.parametrize("title", ["x", "don't", "'; drop table tasks; --", "naïve 漢字 🚀", "a" * 500, '"quoted"'])
def test_any_single_line_is_a_title(title: str) -> None:
    assert checks.title(title) == title


@pytest.mark.parametrize(
    "title", ["", "   ", "a" * 501, "a" * 1_000_000, "two\nlines", "\x1b[31mred", "nul\0", "\u2028"]
)
def test_invalid_title_is_refused_with_a_hint(title: str) -> None:
    with pytest.raises(BadInput) as refused:
        checks.title(title)
    assert refused.value.hint
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("4", 4), ("P1", 1), ("p3", 3), (" 2 ", 2)])
def test_priority_is_a_number_with_or_without_p(text: str, number: int) -> None:
    assert checks.priority(text) == number


@pytest.mark.parametrize("text", ["", "5", "-1", "high", "P", "PP1", "1.0", "²"])
def test_other_priorities_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="invalid priority"):
        checks.priority(text)


def test_types_have_aliases_and_can_be_added() -> None:
    assert checks.task_type("feat", {}) == "feature"
    assert checks.task_type("agent", {"types.custom": "agent, rig"}) == "agent"
    with pytest.raises(BadInput, match="invalid issue type"):
        checks.task_type("agent", {})


def test_statuses_can_be_added_with_a_category() -> None:
    config = {"status.custom": checks.custom_status_setting("review:wip,old")}
    assert checks.custom_statuses(config) == {"review": "wip", "old": "unspecified"}
    assert checks.status("review", config) == "review"
    with pytest.raises(BadInput, match="invalid status"):
        checks.status("review", {})


@pytest.mark.parametrize("setting", ["Open", "open", "re view", "1st", "x:later", "a" * 51])
def test_bad_custom_statuses_are_refused(setting: str) -> None:
    with pytest.raises(BadInput):
        checks.custom_status_setting(setting)


@pytest.mark.parametrize("text", ["fleet-a1", "fleet-a.1.2", "my-app_x-9"])
def test_id_is_safe_as_a_folder_name(text: str) -> None:
    assert checks.task_id(text) == text


@pytest.mark.parametrize("text", ["", "nodash", "../x-1", "a-b/../c", "-x", "a-..", "a-b c", "a-\n", "é-1", ".a-b"])
def test_other_ids_are_refused(text: str) -> None:
    with pytest.raises(BadInput):
        checks.task_id(text)


def test_labels_are_unique_sorted_and_single_lines() -> None:
    assert checks.labels(["b", " a ", "b", ""]) == ("a", "b")
    with pytest.raises(BadInput, match="control character"):
        checks.labels(["a\x1fb"])


@pytest.mark.parametrize("key", ["a", "_x", "fleet.coder", "team-name", "a.b_c"])
def test_metadata_keys_are_names(key: str) -> None:
    assert checks.metadata_key(key) == key


@pytest.mark.parametrize("key", ["", "1a", "a b", "é", "a$", ".x"])
def test_other_metadata_keys_are_refused(key: str) -> None:
    with pytest.raises(BadInput):
        checks.metadata_key(key)
