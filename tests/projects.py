"""For tests of worktrees: a project's own settings, and a coder whose agents do what they are told.

That coder is described in the settings. Its agents run the lines of their prompt that begin with `do: ` and hand in
afterwards, as the protocol asks; `do: exit 3` ends one before that.
"""

import json
import os
from pathlib import Path
from typing import Any

from supervised import commands
from terminals import Terminals

NAME = "shell"
PROGRAM = """#!/bin/sh
cat > "$FLEET_TASK_DIR/heard"
sed -n 's/^do: //p' "$FLEET_TASK_DIR/heard" > "$FLEET_TASK_DIR/steps"
echo '{"type": "tool", "name": "sh"}'
sh "$FLEET_TASK_DIR/steps" >&2 || exit $?
bd close "$FLEET_TASK_ID" --reason "did what was said" >&2
echo '{"type": "end", "ok": true}'
"""


def write_project(home: Terminals, text: str) -> None:
    """Give the repository a project file; nobody trusts it yet."""
    (home.repo / ".fleet").mkdir(exist_ok=True)
    (home.repo / ".fleet" / "config.toml").write_text(text)


def set_up(home: Terminals, **settings: Any) -> None:
    """Give the repository a project file with these settings for new worktrees, and trust it."""
    write_project(home, "[setup]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items()))
    home.fleet.ok("trust")


def use_shell_coder(home: Terminals, *, has_last_word: bool = True) -> None:
    """Make it the coder of a home; without a last word, its end is told by its exit code and its hand-in alone."""
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
    """A prompt that says to do these, one after the other."""
    return "\n".join(f"do: {step}" for step in steps)


def at_work_on(path: Path) -> list[int]:
    """The processes of this machine that have a path in their command; those in a namespace of their own too."""
    return [pid for pid, words in commands() if any(os.fsencode(path) in word for word in words)]
