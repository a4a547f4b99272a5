"""The contract of all stores for trust: the last decision counts, and keys are never confused."""

import pytest

from builders import HOUR, FakeClock
from fleet.core.errors import BadInput
from fleet.store.base import Store

pytestmark = pytest.mark.bd_in_soak

UNICODE = "/r ünïcode 🚀 \u2028 \x00 'quoted\" \\ \n end/.git"


def test_nothing_is_trusted_at_first(store: Store) -> None:
    assert store.trust.get("repository", "/r/.git") is None


def test_last_trust_decision_counts(store: Store, clock: FakeClock) -> None:
    store.trust.set("repository", "/r/.git", '{"hooks": []}', "ada")
    store.trust.set("repository", "/r/.git", '{"hooks": ["pre-commit"]}', "bob")
    assert store.trust.get("repository", "/r/.git") == '{"hooks": ["pre-commit"]}'
    clock.advance(-HOUR)  # a clock that was set back does not revive an earlier decision
    store.trust.set("repository", "/r/.git", "", "ada")
    assert store.trust.get("repository", "/r/.git") == ""


def test_trust_is_separate_for_each_kind_and_key(store: Store) -> None:
    said = {
        (kind, key): f"{kind} {key}"
        for kind in ("repository", "project")
        for key in ("/r/.git", "/R/.git", "/r/.git/", "/r/.gi_", "/r/%", "", UNICODE)
    }
    for (kind, key), value in said.items():
        store.trust.set(kind, key, value, "ada")
    assert {(kind, key): store.trust.get(kind, key) for kind, key in said} == said


def test_key_that_is_not_utf_8_is_never_trusted(store: Store) -> None:
    with pytest.raises(BadInput, match=r"the repository to trust is not UTF-8: /r\\udcff"):
        store.trust.set("repository", "/r\udcff", "all", "ada")
    with pytest.raises(BadInput, match="what is trusted of the repository is not UTF-8"):
        store.trust.set("repository", "/r", "\udcff", "ada")
    for key in ("/r\udcff", "/r\udcfe", "/r?", "/r"):
        assert store.trust.get("repository", key) is None


def test_trust_is_rolled_back_with_its_transaction(store: Store) -> None:
    store.trust.set("project", "/r", "old", "ada")
    with pytest.raises(ZeroDivisionError), store.atomic():
        store.trust.set("project", "/r", "new", "ada")
        raise ZeroDivisionError
    assert store.trust.get("project", "/r") == "old"
