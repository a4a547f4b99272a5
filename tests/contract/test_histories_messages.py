"""What every history promises about messages to agents: kept first, then sent, then seen or carried on, never back."""

from itertools import product
from typing import Any

import pytest

from builders import HOUR, MINUTE, NOON
from fleet.core.run import Delivery, Message
from fleet.store.base import History, Queue

pytestmark = pytest.mark.bd_in_soak

UNICODE = "ünïcode 🚀 \u2028 \x00 'quoted\" \\ \n end"
STATES = (Delivery.QUEUED, Delivery.SENT, Delivery.DELIVERED, Delivery.CARRIED)


def a_message(key: str = "m-1", task: str = "t-1", **said: Any) -> Message:
    """What somebody wants an agent to know."""
    return Message(**{"id": key, "task_id": task, "text": "use blue", "queued_at": NOON, **said})


def ids(found: list[Message]) -> str:
    return " ".join(each.id for each in found)


def test_a_message_comes_back_as_it_was(history: History) -> None:
    instants: dict[str, Any] = {
        "sent_at": NOON + MINUTE,
        "delivered_at": NOON + HOUR,
        "carried_at": NOON + HOUR + MINUTE / 60_000_000,
    }
    full = a_message(author=UNICODE, text=UNICODE, run_id="t-1/2", **instants)
    bare = a_message("m-2")
    for each in (full, bare):
        history.say(each)
    assert history.messages() == [full, bare]


def test_half_a_character_is_kept_as_well_as_it_can_be(history: History) -> None:
    history.say(a_message(text="cut \ud83d"))
    assert len(history.messages()) == 1


def test_the_same_message_said_twice_is_one(history: History) -> None:
    history.say(a_message(text="first"))
    history.mark_message("m-1", Delivery.SENT, NOON, "t-1/1")
    history.say(a_message(text="second"))
    (kept,) = history.messages()
    assert (kept.text, kept.state) == ("first", Delivery.SENT)


def test_messages_are_told_oldest_first_of_one_task_or_all_in_one_state_or_any(history: History) -> None:
    for key, task, minutes in (("c", "t-1", 0), ("a", "t-2", 2), ("b", "t-1", 2), ("d", "t-1", 1), ("e", "t-1", 3)):
        history.say(a_message(key, task, queued_at=NOON + minutes * MINUTE))
    for key, state in (("d", Delivery.SENT), ("b", Delivery.DELIVERED), ("e", Delivery.CARRIED)):
        history.mark_message(key, state, NOON + HOUR, "t-1/1")
    assert ids(history.messages()) == "c d a b e"
    assert ids(history.messages("t-1")) == "c d b e" and history.messages("nope") == []
    assert [ids(history.messages(state=state)) for state in STATES] == ["c a", "d", "b", "e"]
    assert [ids(history.messages("t-2", state=state)) for state in STATES] == ["a", "", "", ""]


#: Where a message can be, and where it may go from there.
ONWARD = {
    Delivery.QUEUED: (Delivery.SENT, Delivery.DELIVERED, Delivery.CARRIED),
    Delivery.SENT: (Delivery.DELIVERED, Delivery.CARRIED),
    Delivery.DELIVERED: (),
    Delivery.CARRIED: (),
}


def test_a_message_moves_only_forward_and_its_end_is_final(history: History) -> None:
    for start, goal in product(STATES, STATES):
        key = f"{start}-{goal}"
        history.say(a_message(key, key))
        if start != Delivery.QUEUED:
            assert history.mark_message(key, start, NOON + MINUTE, "t-1/1"), key
        (before,) = history.messages(key)
        moved = history.mark_message(key, goal, NOON + HOUR, "t-1/2")
        (after,) = history.messages(key)
        assert moved is (goal in ONWARD[start]), key
        assert (after.state, after.run_id) == ((goal, "t-1/2") if moved else (start, before.run_id)), key
        assert after == (before.replace(run_id="t-1/2", **{f"{goal}_at": NOON + HOUR}) if moved else before)


def test_a_message_that_is_not_there_does_not_move(history: History) -> None:
    assert history.mark_message("nope", Delivery.SENT, NOON, "t-1/1") is False
    assert history.messages() == []


def test_messages_are_taken_back_with_their_transaction(queue: Queue, history: History) -> None:
    history.say(a_message())
    before = history.messages()
    with pytest.raises(ZeroDivisionError), queue.atomic():
        history.mark_message("m-1", Delivery.SENT, NOON, "t-1/1")
        history.say(a_message("m-2"))
        raise ZeroDivisionError
    assert history.messages() == before
