"""Messages to the later of two agents that its branch collides with an earlier branch, once per pair.

Only an agent that can read messages while it works gets one. A collision justifies neither an interruption nor another
run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.coders.base import STDIN
from fleet.core.run import Message
from fleet.core.unique import new_uuid

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from fleet.core.collision import Collision
    from fleet.engine.live import Live
    from fleet.store.base import Store

#: The author of such messages.
AUTHOR = "fleet (conflict radar)"
#: Maximum number of files to name.
MOST_NAMED = 10
LONGEST_NAME = 200


def wants_to_hear(live: Live | None) -> bool:
    """Return True if the settings allow it and the agent can receive a message without being stopped."""
    if live is None or not live.settings.merge.tell:
        return False
    return live.interactive or (live.coder.steering == STDIN and live.run.result_at is None)


def tell(store: Store, common: str, hearers: Collection[str]) -> bool:
    """Queue a message for each of `hearers` whose branch collides with an earlier branch, once per pair.

    Return True if a message was queued.
    """
    with store.atomic():
        branches = {space.task_id: space.branch for space in store.workspaces.find(common=common)}
        told = False
        for each in store.collisions.find(common=common):
            known = each.task_id in branches and each.other_id in branches
            if each.other_id in hearers and known and store.collisions.mark_told(each, store.now()):
                text = text_of(each, branches[each.task_id], branches[each.other_id])
                message = Message(id=new_uuid(), task_id=each.other_id, author=AUTHOR, text=text, queued_at=store.now())
                store.messages.add(message)
                told = True
        return told


def text_of(collision: Collision, earlier: str, own: str) -> str:
    """Return the message for the later agent."""
    return (
        f"Note from fleet: your branch {own} collides with branch {earlier} of another agent ({collision.task_id}), "
        f"which began before yours. As they are now, git cannot merge both in: {_named(collision.files)}. "
        f"`git diff {own}...{earlier} -- FILE` shows what that one changes. Where your task leaves you the choice, "
        "make your change so that both fit together; otherwise go on as before. Nothing else is asked of you."
    )


def _named(files: Iterable[str]) -> str:
    """Return quoted file names that another agent chose: shortened, and without unprintable characters."""
    names = list(files)
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(f"'{_plain(name)}'" for name in names[:MOST_NAMED]) + more


def _plain(name: str) -> str:
    return "".join(char if char.isprintable() and char != "'" else "?" for char in name)[:LONGEST_NAME]
