"""Dialogs on the screens of agents: listed with their options, answered by number or text, and never by mistake."""

import json
from pathlib import Path

from stub_terminal import heard, use_stub
from supervised import wait_for
from terminals import Terminals, home

__all__ = ["home"]

FIRST = "Do you trust the files in this folder?"


def at_dialog(home: Terminals, count: int = 1) -> None:
    """Start an agent that stands before so many dialogs."""
    use_stub(home, dialog=count)
    home.fleet.ok("create", "work", "--prompt", "make it so")
    home.wait_listed("work", "waiting for you")


def test_dialog_is_shown_everywhere_and_answered_by_branch(home: Terminals) -> None:
    at_dialog(home)
    unseen = home.fleet("answer", "work", "1")
    assert unseen.code == 1 and "you have not seen" in unseen.err and "fleet questions" in unseen.err
    (told,) = home.told("questions")
    options = [{"number": 1, "text": "Yes"}, {"number": 2, "text": "No"}]
    assert (told["kind"], told["branch"], told["text"], told["options"]) == ("dialog", "work", FIRST, options)
    (needs,) = home.told("status")["needs_you"]
    assert (needs["what"], needs["options"], needs["commands"]) == (FIRST, ["Yes", "No"], ["fleet answer work 1"])
    shown = home.fleet.ok("show", "work")
    assert FIRST in shown and "2. No" in shown and f"worktree:    {home.listed()['work']['worktree']}" in shown
    assert "account:     your own login to claude" in shown
    wrong = home.fleet("answer", "work", "3")
    assert wrong.code == 2 and "1. Yes, 2. No" in wrong.err
    assert home.fleet.ok("answer", "work", "yes") == "work: chose 1. Yes\n"
    home.wait_listed("work", "idle")
    assert heard(home) == ["make it so"]


def test_dialog_that_followed_the_one_shown_is_not_answered(home: Terminals) -> None:
    at_dialog(home, 2)
    assert FIRST in home.fleet.ok("status")
    (first,) = home.told("questions")
    home.tmux("send-keys", "-t", "=ai_work:", "1")
    wait_for(lambda: "Allow step 1?" in home.screen("ai_work"), "the second dialog", home.describe)
    assert home.fleet("answer", "work", "1").code == home.fleet("answer", first["id"], "1").code == 1
    assert "Allow step 1?" in home.screen("ai_work")
    (second,) = home.told("questions")
    told = home.told("answer", second["id"], "1")
    assert (told["kind"], told["chosen"]) == ("dialog", {"number": 1, "text": "Yes"})
    home.wait_listed("work", "idle")
    assert heard(home) == ["make it so"], "no key went anywhere else"


def test_permission_is_given_to_an_agent_by_text(home: Terminals) -> None:
    task = home.told("create", "work", "--prompt", "work\ndemo: question")["task"]
    home.wait_listed("work", "waiting for you")
    assert "Allow write" in home.fleet.ok("questions") and "1. Yes" in home.fleet.ok("status")
    home.fleet.ok("answer", "work", "Yes")
    (tree,) = home.worktrees()
    wait_for(Path(tree, f"demo-{task}.md").exists, "the permitted file", home.describe)
    home.wait_listed("work", "idle")
    assert json.loads(home.fleet.ok("questions", "--json")) == []
