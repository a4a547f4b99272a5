"""Requirements of tasks on hosts, and their validation before they are stored."""

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fleet.core import host as host_words
from fleet.core.errors import BadInput
from fleet.core.host import change_requirements, check_requirements, join_requirements, make_requirements
from fleet.settings.sections import HostLabel, HostName


def test_labels_and_host_are_sorted_and_unique() -> None:
    assert make_requirements(["linux", "gpu", "gpu"], "build7") == '["gpu", "host:build7", "linux"]'
    assert make_requirements([]) == make_requirements((), "") == ""


@pytest.mark.parametrize("label", ["", " gpu", "gpu linux", "host:a", "a,b", "-gpu", "gpü", "g" * 65, "a\nb", "[", '"'])
def test_invalid_label_is_refused(label: str) -> None:
    with pytest.raises(BadInput, match="is not a valid host label"):
        make_requirements([label])


@pytest.mark.parametrize("name", [" a", "a b", "host:a", "../a", "-a", "ä", "a" * 101, "a\n", "a@1"])
def test_invalid_host_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="is not a valid host name"):
        make_requirements([], name)


def test_number_of_requirements_is_limited() -> None:
    assert make_requirements([f"l{number}" for number in range(32)])
    with pytest.raises(BadInput, match="too many host labels: 33"):
        make_requirements([f"l{number}" for number in range(33)])


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        *(("", ""), ("[]", ""), ('["b","a"]', '["a", "b"]'), ('["host:x", "a", "a"]', '["a", "host:x"]')),
        ('["host:x@12"]', '["host:x@12"]'),
    ],
)
def test_user_written_list_is_stored_in_canonical_form(text: str, kept: str) -> None:
    assert check_requirements(text) == kept


@pytest.mark.parametrize(
    "text",
    ["gpu", "{}", "[1]", "[", '["a b"]', '["host:"]', '["host:@1"]', '["host:a@"]', '["host:a", "host:b"]', "[[]]"],
)
def test_requirement_that_no_host_can_offer_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        check_requirements(text)


@pytest.mark.parametrize(
    ("labels", "host", "kept"),
    [
        (None, None, '["gpu", "host:a"]'),
        (["arm"], None, '["arm", "host:a"]'),
        ([], None, '["host:a"]'),
        (None, "b", '["gpu", "host:b"]'),
        (None, "", '["gpu"]'),
        ([], "", ""),
    ],
)
def test_change_replaces_only_its_own_part(labels: list[str] | None, host: str | None, kept: str) -> None:
    assert change_requirements('["gpu", "host:a"]', labels, host) == kept


def test_host_of_a_home_is_required_until_another_is_named() -> None:
    assert change_requirements('["host:a@12"]', ["gpu"], None) == '["gpu", "host:a@12"]'
    assert change_requirements('["host:a@12"]', None, "b") == '["host:b"]'
    assert change_requirements('["host:a@12"]', None, "") == ""


def test_labels_are_shown_without_prefixes() -> None:
    assert join_requirements(("gpu", "host:build7")) == "gpu, host build7"


WORDS = st.text(st.sampled_from("aZ09_.=+-: ,\nä"), max_size=5) | st.text(max_size=3)


@given(WORDS)
@example("a" * 64)
@example("a" * 65)
def test_settings_and_tasks_accept_the_same_labels(text: str) -> None:
    assert fits(text, HostLabel) == accepts(host_words.label, text)


@given(WORDS)
@example("a" * 100)
@example("a" * 101)
def test_settings_and_tasks_accept_the_same_names(text: str) -> None:
    assert fits(text, HostName) == accepts(host_words.name, text)


def fits(text: str, kind: object) -> bool:
    try:
        msgspec.convert(text, kind)
    except msgspec.ValidationError:
        return False
    return True


def accepts(check: object, text: str) -> bool:
    assert callable(check)
    try:
        check(text)
    except BadInput:
        return False
    return True
