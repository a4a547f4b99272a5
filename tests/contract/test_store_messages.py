"""The contract of all stores for messages to agents: stored, sent, then delivered or carried over, and never back."""

from itertools import product
from typing import Any

import pytest

from builders import HOUR, MINUTE, NOON
from fleet.core.run import Delivery, Message
from fleet.store.base import Store

pytestmark = pytest.mark.bd_in_soak

UNICODE = "ünïcode 🚀 \u2028 \x00 'quoted\" \\ \n end"
STATES = (Delivery.QUEUED, Delivery.SENT, Delivery.DELIVERED, Delivery.CARRIED)


def a_message(key: str = "m-1", task: str = "t-1", **said: Any) -> Message:
    """Return a message to an agent."""
    return Message(**{"id": key, "task_id": task, "text": "use blue", "queued_at": NOON, **said})


def ids(found: list[Message]) -> str:
    return " ".join(each.id for each in found)


def test_message_is_returned_unchanged(store: Store) -> None:
    instants: dict[str, Any] = {
        "sent_at": NOON + MINUTE,
        "delivered_at": NOON + HOUR,
        "carried_at": NOON + HOUR + MINUTE / 60_000_000,
    }
    full = a_message(author=UNICODE, text=UNICODE, run_id="t-1/2", **instants)
    bare = a_message("m-2")
    for each in (full, bare):
        store.messages.add(each)
    assert store.messages.find() == [full, bare]


def test_message_with_half_a_surrogate_pair_is_stored(store: Store) -> None:
    store.messages.add(a_message(text="cut \ud83d"))
    assert len(store.messages.find()) == 1


def test_message_with_the_same_id_is_stored_once(store: Store) -> None:
    store.messages.add(a_message(text="first"))
    store.messages.mark("m-1", Delivery.SENT, NOON, "t-1/1")
    store.messages.add(a_message(text="second"))
    (kept,) = store.messages.find()
    assert (kept.text, kept.state) == ("first", Delivery.SENT)


def test_messages_are_returned_oldest_first_by_task_and_state(store: Store) -> None:
    for key, task, minutes in (("c", "t-1", 0), ("a", "t-2", 2), ("b", "t-1", 2), ("d", "t-1", 1), ("e", "t-1", 3)):
        store.messages.add(a_message(key, task, queued_at=NOON + minutes * MINUTE))
    for key, state in (("d", Delivery.SENT), ("b", Delivery.DELIVERED), ("e", Delivery.CARRIED)):
        store.messages.mark(key, state, NOON + HOUR, "t-1/1")
    assert ids(store.messages.find()) == "c d a b e"
    assert ids(store.messages.find("t-1")) == "c d b e" and store.messages.find("nope") == []
    assert [ids(store.messages.find(state=state)) for state in STATES] == ["c a", "d", "b", "e"]
    assert [ids(store.messages.find("t-2", state=state)) for state in STATES] == ["a", "", "", ""]


#: The states that may follow each state of a message.
ONWARD = {
    Delivery.QUEUED: (Delivery.SENT, Delivery.DELIVERED, Delivery.CARRIED),
    Delivery.SENT: (Delivery.DELIVERED, Delivery.CARRIED),
    Delivery.DELIVERED: (),
    Delivery.CARRIED: (),
}


def test_message_state_only_advances_and_its_end_is_final(store: Store) -> None:
    for start, goal in product(STATES, STATES):
        key = f"{start}-{goal}"
        store.messages.add(a_message(key, key))
        if start != Delivery.QUEUED:
            assert store.messages.mark(key, start, NOON + MINUTE, "t-1/1"), key
        (before,) = store.messages.find(key)
        moved = store.messages.mark(key, goal, NOON + HOUR, "t-1/2")
        (after,) = store.messages.find(key)
        assert moved is (goal in ONWARD[start]), key
        assert (after.state, after.run_id) == ((goal, "t-1/2") if moved else (start, before.run_id)), key
        assert after == (before.replace(run_id="t-1/2", **{f"{goal}_at": NOON + HOUR}) if moved else before)


def test_unknown_message_does_not_change_state(store: Store) -> None:
    assert store.messages.mark("nope", Delivery.SENT, NOON, "t-1/1") is False
    assert store.messages.find() == []


def test_messages_are_rolled_back_with_their_transaction(store: Store) -> None:
    store.messages.add(a_message())
    before = store.messages.find()
    with pytest.raises(ZeroDivisionError), store.atomic():
        store.messages.mark("m-1", Delivery.SENT, NOON, "t-1/1")
        store.messages.add(a_message("m-2"))
        raise ZeroDivisionError
    assert store.messages.find() == before
