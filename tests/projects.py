"""A project's own settings, and a coder whose agents run shell lines, for tests of worktrees.

The coder is described in the settings. Its agents run the lines of their prompt that begin with `do: `, and hand in
afterwards as the protocol demands; `do: exit 3` ends the agent before. An agent that cannot write its steps fails.
"""

import json
import os
from pathlib import Path
from typing import Any

from supervised import commands
from terminals import Terminals

NAME = "shell"
PROGRAM = """#!/bin/sh
cat > "$FLEET_TASK_DIR/heard" || exit 1
sed -n 's/^do: //p' "$FLEET_TASK_DIR/heard" > "$FLEET_TASK_DIR/steps" || exit 1
echo '{"type": "tool", "name": "sh"}'
sh "$FLEET_TASK_DIR/steps" >&2 || exit $?
bd close "$FLEET_TASK_ID" --reason "did what was said" >&2
echo '{"type": "end", "ok": true}'
"""


def write_project(home: Terminals, text: str) -> None:
    """Give the repository a project file, which is not trusted yet."""
    (home.repo / ".fleet").mkdir(exist_ok=True)
    (home.repo / ".fleet" / "config.toml").write_text(text)


def set_up(home: Terminals, **settings: Any) -> None:
    """Give the repository a project file with these settings for new worktrees, and trust it."""
    write_project(home, "[setup]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items()))
    home.fleet.ok("trust")


def use_shell_coder(home: Terminals, *, has_last_word: bool = True) -> None:
    """Make this the coder of a home. Without a last word, only exit code and hand-in show its end."""
    program = home.fleet.user / "shell-agent"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    settings = home.fleet.home / "runtime.toml"
    described = (
        f"\n[coders.{NAME}]\nargv = {json.dumps([str(program)])}\n"
        '[coders.shell.output]\nformat = "jsonl"\ntool = { path = "name", when = { type = "tool" } }\n'
    )
    ends = 'success = { type = "end", ok = true }\nfailure = { type = "end", ok = false }\n'
    settings.write_text(settings.read_text() + described + (ends if has_last_word else ""))
    home.set(f"coder={NAME}")


def orders(*steps: str) -> str:
    """Return a prompt that orders these steps one after the other."""
    return "\n".join(f"do: {step}" for step in steps)


def at_work_on(path: Path) -> list[int]:
    """Return the processes of this machine that have a path in their command, also those in other namespaces."""
    return [pid for pid, words in commands() if any(os.fsencode(path) in word for word in words)]
