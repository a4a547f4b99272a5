"""The first prompt of an agent in a terminal: typed once its input is ready, received once and whole, never lost."""

import os
import signal
import time
from typing import Any

import pytest

from stub_terminal import heard, use_stub
from supervised import wait_for
from terminals import Terminals, home

__all__ = ["home"]

TEXT = "-x 'one'  \"two\" $(touch hurt)\n\n\tthen `touch hurt`\nlast line @"


def state(home: Terminals) -> str:
    """Return the state of the only prompt."""
    (row,) = home.rows("select * from messages") or [{}]
    return next((way for way in ("carried", "delivered", "sent") if row.get(f"{way}_at")), "queued" if row else "")


def kill_supervisor(home: Terminals) -> None:
    """End the supervisor with SIGKILL."""
    os.kill(home.status()["pid"], signal.SIGKILL)
    wait_for(lambda: not home.status()["running"], "its end")


def create(home: Terminals, text: str = TEXT) -> dict[str, Any]:
    """Create an agent with a prompt. Return its row."""
    home.fleet.ok("create", "work", "-", stdin=text)
    (row,) = home.rows_of_branch("work")
    return row


def test_prompt_is_received_whole_and_as_one_message(home: Terminals) -> None:
    use_stub(home, sleeps=1)
    long = "".join(f"{number}: a 'word' or \"two\"\n" for number in range(2_000)).strip()
    create(home, f"{TEXT}\n{long}")
    home.wait_listed("work", "idle")
    assert heard(home) == [f"{TEXT}\n{long}"]
    assert state(home) == "delivered" and home.listed()["work"]["prompt_state"] is None


def test_prompt_waits_behind_a_dialog_and_the_list_says_so(home: Terminals) -> None:
    use_stub(home, dialog=1)
    create(home)
    row = home.wait_listed("work", "waiting for you")
    time.sleep(1)  # longer than typing takes
    assert row["prompt_state"] == "queued" and state(home) == "queued" and heard(home) == []
    assert "work waits for you: `fleet questions`" in home.fleet.ok("list")
    home.tmux("send-keys", "-t", "=ai_work:", "1")
    home.wait_listed("work", "idle")
    assert heard(home) == [TEXT]


def test_unread_prompt_is_reported_and_not_typed_again(home: Terminals) -> None:
    use_stub(home, deaf=4)
    create(home)
    wait_for(lambda: state(home) == "sent", "it to be typed", home.describe)
    time.sleep(6)  # until the program reads
    row = home.listed()["work"]
    assert (row["status"], row["prompt_state"]) == ("starting", "sent") and heard(home) == []


@pytest.mark.parametrize("moment", ["queued", "sent"])
@pytest.mark.parametrize("start", ["soon", "slow"])
def test_prompt_is_received_once_when_the_supervisor_is_killed_before_it_was_typed(
    start: str, moment: str, home: Terminals
) -> None:
    use_stub(home, **({"sleeps": 2} if start == "slow" else {}))
    create(home)
    wait_for(lambda: state(home) in (moment, "delivered"), "its prompt to be on record", home.describe)
    kill_supervisor(home)
    home.fleet.ok("run", "start")
    home.wait_listed("work", "idle")
    assert heard(home) == [TEXT] and state(home) == "delivered"


def test_messages_wait_until_the_prompt_was_received(home: Terminals) -> None:
    use_stub(home, dialog=1)
    create(home)
    home.wait_listed("work", "waiting for you")
    home.fleet.ok("prompt", "work", "and this", "--wait", "0")
    home.tmux("send-keys", "-t", "=ai_work:", "1")
    wait_for(lambda: len(heard(home)) == 2, "both", home.describe)
    assert heard(home) == [TEXT, "and this"]


def test_unread_prompt_is_reported_and_added_to_the_next_run(home: Terminals) -> None:
    use_stub(home, dialog=1)
    task = create(home)["id"]
    home.wait_listed("work", "waiting for you")
    home.tmux("kill-session", "-t", "=ai_work")
    found = home.wait_status(task, "blocked")
    assert "it never read its prompt" in found["reason"]
    home.fleet.ok("prompt", "work", "with this", "--wait", "0")
    for _ in range(2):
        home.wait_listed("work", "waiting for you")
        if len(home.runs(task)) == 2:
            home.tmux("kill-session", "-t", "=ai_work")
            home.wait_status(task, "blocked")
            home.fleet.ok("retry", "work")
    home.wait_listed("work", "waiting for you")
    home.tmux("send-keys", "-t", "=ai_work:", "1")
    home.wait_listed("work", "idle")
    (told,) = heard(home)
    assert told.count(TEXT) == 1 and told.count("with this") == 1
    rows = home.rows("select * from messages where id like '%/%' order by queued_at")
    assert [bool(row["carried_at"]) for row in rows] == [True, True, False] and rows[-1]["delivered_at"]
    # A prompt that was received at last is not repeated.
    home.tmux("kill-session", "-t", "=ai_work")
    home.wait_status(task, "blocked")
    home.fleet.ok("retry", "work")
    home.wait_listed("work", "waiting for you")
    home.tmux("send-keys", "-t", "=ai_work:", "1")
    home.wait_listed("work", "idle")
    assert heard(home) == [told]
