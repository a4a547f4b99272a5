"""bd prime: a short guide to the queue for agents."""

from __future__ import annotations

import sys

from fleet.cli.text import clean
from fleet.core.errors import FleetError
from fleet.core.jsontext import encode_printable
from fleet.descent import is_agents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fleet.cli.bd.session import Session

FLAGS = {
    "prime": """
--full          | the whole guide, also where --mcp asks for the short one
--mcp           | the short form, for those who have the queue as tools
--stealth       | accepted; the guide never mentions git
--export        | the built-in guide, whatever PRIME.md says
--memories-only | nothing: there are no memories
--hook-json     | as the answer of a SessionStart hook
""",
}

LONGEST = 1024 * 1024

GUIDE = """\
# The task queue

`bd` is the command line of a queue that people and agents share. Add `--json` to any command to get data.
Every command is saved when it returns: you never need to sync, flush or commit.
`bd COMMAND --help` shows all flags; `bd prime` shows this guide again.

## Find work
- `bd ready` – tasks that can start now, most urgent first. `bd ready --claim` takes the first one.
- `bd show ID` – one task in full, with its dependencies. `bd comments ID` – its comments.
- `bd list --status in_progress`, `bd blocked`, `bd search WORDS` – running tasks, waiting tasks, all matches.

## Claim a task
- `bd update ID --claim` – reserves it for you. If it fails, another agent has it: take another task.
- `bd unclaim ID` – return it to the queue.

## Keep it current
- `bd update ID --append-notes "…"` – your findings; `bd comment ID "…"` – a message to others.
- `bd create "Title" -d "why, and what to do" -t bug -p 1` – new work. Types: task, bug, feature, chore, epic …
  Priorities: 0 (urgent) to 4 (backlog), default 2. Use numbers, not words.
- `bd create "…" --parent EPIC` – a part of something larger.
- `bd create "…" --deps discovered-from:ID` – work that you found while doing ID.
- Long texts: `--body-file -` reads them from stdin. No command opens an editor.

## Dependencies
- `bd dep add ID OTHER` – ID waits until OTHER is closed. `bd dep tree ID` draws the tree.

## Ask a person
Do not wait at a prompt: no person is watching. Write the question down and stop:
`bd update ID --status blocked --append-notes "QUESTION: which of the two should it be, and why it matters"`

## Finish
- `bd close ID --reason "what was done and how you know it works"` – once, when all work is done.
- If fleet started you for ID (`FLEET_RUN_TOKEN` is set), closing ID hands in your work: fleet checks your changes, then
  closes the task and releases the tasks that depend on it. Close only your own task, then stop.
- Create new tasks for remaining work before you close.
"""

SHORT = """\
# The task queue

Use the queue's tools for all work: find it with `ready`, take it with `claim`, close it with a reason when all work is
done. Create new tasks for work that you find. To ask a person, set the task to blocked with notes that begin with
QUESTION: and stop. If fleet started you for a task, closing that task hands it in for checking. `bd prime` has more.
"""


def prime(session: Session) -> int:
    arguments = session.arguments
    if arguments.flag("memories-only"):
        return 0
    short = arguments.flag("mcp") and not arguments.flag("full")
    text = SHORT if short else GUIDE
    if not arguments.flag("export"):
        text = (_override(session) or text) + _own_task(session)
    if arguments.flag("hook-json"):
        answer = {"hookEventName": "SessionStart", "additionalContext": text}
        text = encode_printable({"hookSpecificOutput": answer}) + "\n"
    sys.stdout.write(text)
    return 0


def _override(session: Session) -> str:
    path = session.home.guide
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs each call 10 ms
            text = file.read(LONGEST)
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        session.warn(f"Warning: cannot read {path}: {error}")
        return ""
    return text if text.endswith("\n") or not text else text + "\n"


def _own_task(session: Session) -> str:
    """Return a section that names the run's own task, or "".

    Errors are ignored, because a failing guide would stop an agent.
    """
    if not is_agents(session.home.root) or not session.home.exists:
        return ""
    try:
        caller = session.caller()
        task = session.store.tasks.get(caller.task_id) if caller is not None else None
    except FleetError:
        return ""
    return f"\n## Your task\nfleet started you for {task.id}: {clean(task.title)}\n" if task is not None else ""
