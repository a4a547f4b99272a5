"""What every history promises about trust: the last word counts, and nobody is taken for somebody else."""

import pytest

from builders import HOUR, FakeClock
from fleet.core.errors import BadInput
from fleet.store.base import History, Queue

pytestmark = pytest.mark.bd_in_soak

UNICODE = "/r ünïcode 🚀 \u2028 \x00 'quoted\" \\ \n end/.git"


def test_nothing_is_trusted_at_first(queue: Queue, history: History) -> None:
    assert history.trusted("repository", "/r/.git") is None


def test_the_last_word_counts(queue: Queue, history: History, clock: FakeClock) -> None:
    history.trust("repository", "/r/.git", '{"hooks": []}', "ada")
    history.trust("repository", "/r/.git", '{"hooks": ["pre-commit"]}', "bob")
    assert history.trusted("repository", "/r/.git") == '{"hooks": ["pre-commit"]}'
    clock.advance(-HOUR)  # a clock that was set back makes no earlier word the last
    history.trust("repository", "/r/.git", "", "ada")
    assert history.trusted("repository", "/r/.git") == ""


def test_kinds_and_keys_are_apart(queue: Queue, history: History) -> None:
    said = {
        (kind, key): f"{kind} {key}"
        for kind in ("repository", "project")
        for key in ("/r/.git", "/R/.git", "/r/.git/", "/r/.gi_", "/r/%", "", UNICODE)
    }
    for (kind, key), value in said.items():
        history.trust(kind, key, value, "ada")
    assert {(kind, key): history.trusted(kind, key) for kind, key in said} == said


def test_a_key_that_is_not_utf_8_is_nobodys_and_trusts_nothing(queue: Queue, history: History) -> None:
    with pytest.raises(BadInput, match=r"the repository to trust is not UTF-8: /r\\udcff"):
        history.trust("repository", "/r\udcff", "all", "ada")
    with pytest.raises(BadInput, match="what is trusted of the repository is not UTF-8"):
        history.trust("repository", "/r", "\udcff", "ada")
    for key in ("/r\udcff", "/r\udcfe", "/r?", "/r"):
        assert history.trusted("repository", key) is None


def test_trust_is_taken_back_with_its_transaction(queue: Queue, history: History) -> None:
    history.trust("project", "/r", "old", "ada")
    with pytest.raises(ZeroDivisionError), queue.atomic():
        history.trust("project", "/r", "new", "ada")
        raise ZeroDivisionError
    assert history.trusted("project", "/r") == "old"
