"""The table of bd's verbs: module, usage, help, and whether the verb writes."""

from __future__ import annotations

import sys

from fleet.cli.bd.arguments import GLOBAL_FLAGS, table
from fleet.cli.examples import write_examples
from fleet.core.errors import UsageError, closest

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from fleet.cli.bd.arguments import Arguments, Flag
    from fleet.cli.bd.session import Session


WRITES, READS = True, False

#: verb: (module of fleet.cli.bd, function, writes, usage, help)
VERBS: dict[str, tuple[str, str, bool, str, str]] = {
    "create": ("create", "create", WRITES, "[title]", "make a task"),
    "q": ("create", "quick", WRITES, "<title>", "make a task, print only its id"),
    "show": ("show", "show", READS, "<id…>", "show tasks in full"),
    "list": ("list_issues", "list_tasks", READS, "", "list tasks"),
    "ready": ("ready", "ready", READS, "", "list what can start now; --claim takes the first"),
    "update": ("update", "update", WRITES, "<id…>", "change tasks"),
    "close": ("close", "close", WRITES, "<id…>", "close tasks"),
    "done": ("close", "done", WRITES, "<id> [reason]", "close a task with a reason"),
    "reopen": ("close", "reopen", WRITES, "<id…>", "open tasks again"),
    "delete": ("delete", "delete", WRITES, "<id…>", "delete tasks for good"),
    "dep": ("dep", "dep", WRITES, "<blocker> --blocks <blocked>", "make one task wait for another"),
    "dep add": ("dep", "add", WRITES, "<task> <depends-on>", "add a dependency"),
    "dep remove": ("dep", "remove", WRITES, "<task> <depends-on>", "remove a dependency"),
    "dep list": ("dep_views", "list_edges", READS, "<id…>", "list dependencies or dependents"),
    "dep tree": ("dep_views", "tree", READS, "<id>", "draw what waits for what"),
    "dep cycles": ("dep_views", "cycles", READS, "", "find circles"),
    "dep relate": ("dep", "relate", WRITES, "<id> <id>", "relate two tasks"),
    "dep unrelate": ("dep", "unrelate", WRITES, "<id> <id>", "take a relation back"),
    "comment": ("comments", "comment", WRITES, "<id> <text…>", "comment on a task"),
    "comments": ("comments", "comments", READS, "<id>", "list a task's comments"),
    "comments add": ("comments", "add", WRITES, "<id> <text>", "comment on a task"),
    "label add": ("labels", "add", WRITES, "<id…> <label>", "add a label"),
    "label remove": ("labels", "remove", WRITES, "<id…> <label>", "remove a label"),
    "label list": ("labels", "list_labels", READS, "<id>", "list a task's labels"),
    "label list-all": ("labels", "list_all", READS, "", "list all labels"),
    "label propagate": ("labels", "propagate", WRITES, "<parent> <label>", "give a label to all children"),
    "tag": ("labels", "tag", WRITES, "<id> <label>", "add a label"),
    "count": ("count", "count", READS, "", "count tasks"),
    "status": ("count", "stats", READS, "", "show the state of the queue"),
    "blocked": ("count", "blocked", READS, "", "list what waits for something"),
    "search": ("search", "search", READS, "<text>", "search titles, descriptions and ids"),
    "stale": ("search", "stale", READS, "", "list tasks without recent changes"),
    "children": ("search", "children", READS, "<id>", "list a task's children"),
    "export": ("export", "export", READS, "", "write all tasks as JSONL"),
    "import": ("import_", "import_", WRITES, "[file|-]", "read tasks from JSONL"),
    "prime": ("prime", "prime", READS, "", "explain the queue to an agent"),
    "batch": ("batch", "batch", WRITES, "", "several operations, all or none"),
    "config get": ("settings", "config_get", READS, "<key>", "show one of the queue's settings"),
    "config set": ("settings", "config_set", WRITES, "<key> <value>", "change one of the queue's settings"),
    "config unset": ("settings", "config_unset", WRITES, "<key>", "forget one of the queue's settings"),
    "config list": ("settings", "config_list", READS, "", "list the queue's settings"),
    "statuses": ("settings", "statuses", READS, "", "list the statuses"),
    "types": ("settings", "types", READS, "", "list the types"),
    "where": ("settings", "where", READS, "", "show where the queue lies"),
    "info": ("settings", "info", READS, "", "show what this queue is"),
    "version": ("settings", "version", READS, "", "show the version"),
    "init": ("init", "init", WRITES, "", "make the queue"),
    "assign": ("shortcuts", "assign", WRITES, "<id> <name>", "assign a task"),
    "priority": ("shortcuts", "priority", WRITES, "<id> <n>", "set a task's priority"),
    "note": ("shortcuts", "note", WRITES, "<id> <text…>", "append to a task's notes"),
    "defer": ("shortcuts", "defer", WRITES, "<id…> --until <time>", "put tasks off"),
    "undefer": ("shortcuts", "undefer", WRITES, "<id…>", "take tasks up again"),
    "unclaim": ("shortcuts", "unclaim", WRITES, "<id…>", "give back tasks you hold"),
}

#: Verbs that write only with this flag.
WRITING_FLAGS = {"ready": "claim"}

ALIASES = {
    "new": "create",
    "view": "show",
    "stats": "status",
    "dep rm": "dep remove",
    "label rm": "label remove",
    "link": "dep add",
    "relate": "dep relate",
    "unrelate": "dep unrelate",
}

#: Words that need a second word to form a verb.
GROUPS = ("label", "config")

#: Verbs of bd that fleet does not support, with alternatives.
UNSUPPORTED = {
    "dolt": "there is no dolt here: `fleet bd export -o FILE` and `fleet bd import FILE` move a queue.",
    "sync": "there is nothing to sync: every process of this host shares one database.",
    "backup": "`fleet bd export -o FILE` keeps a copy of every task.",
    "restore": "`fleet bd import FILE` reads a copy back.",
    "sql": "the database is SQLite: open a copy of $FLEET_HOME/fleet.db with any SQLite tool.",
    "compact": "nothing needs compacting.",
    "gc": "nothing needs collecting.",
    "admin": "nothing needs administering.",
    "migrate": "`fleet run` brings the database up to date.",
    "doctor": "`fleet config validate` checks the settings.",
    "hooks": "fleet needs no git hooks.",
    "onboard": "`fleet bd prime` explains the queue to an agent.",
    "setup": "`fleet bd prime` explains the queue to an agent.",
    "quickstart": "`fleet bd prime` explains the queue.",
    "remember": "keep lasting notes in a task's notes: `fleet bd note ID TEXT`.",
    "memories": "search notes: `fleet bd list --notes-contains TEXT`.",
    "forget": "there are no memories to forget.",
    "recall": "there are no memories to recall.",
    "heartbeat": "a claim made through bd never expires here, so it needs no heartbeat.",
    "reclaim": "take over with `fleet bd update ID --assignee ME --force`.",
    "recompute-blocked": "blocked state is always up to date here.",
    "serve": "agents call this program.",
    "edit": "`fleet bd update ID --body-file -` reads a new description.",
    "rename": "ids are kept for ever here.",
    "rename-prefix": "ids are kept for ever here.",
    "mol": "molecules are not supported; tasks with dependencies are.",
    "wisp": "wisps are not supported; `--ephemeral` tasks are.",
    "formula": "formulas are not supported; `fleet bd create --graph` makes several tasks at once.",
    "gate": "gates are not supported; make a task that others depend on.",
    "swarm": "swarms are not supported; tasks with dependencies are.",
    "epic": "`fleet bd show EPIC` counts an epic's children.",
    "graph": "`fleet bd dep tree ID` draws what waits for what.",
    "history": "a task's history is not kept; its comments and notes are.",
    "human": "`fleet bd list --status blocked` lists what needs a person.",
    "supersede": "`fleet bd dep add OLD NEW --type supersedes`, then `fleet bd close OLD`.",
    "duplicate": "`fleet bd dep add COPY ORIGINAL --type duplicates`, then `fleet bd close COPY`.",
    "duplicates": "`fleet bd search TEXT` finds tasks alike.",
}


class Verb:
    """A row of the table, which can load its function."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.module, self.function, self.writes, self.usage, self.help = VERBS[name]

    def writing(self, arguments: Arguments) -> bool:
        """Return True if the verb writes with these arguments."""
        if arguments.flag("dry-run"):
            return False
        return self.writes or arguments.flag(WRITING_FLAGS.get(self.name, ""))

    def load(self) -> Callable[[Session], int]:
        """Return the function that runs the verb."""
        found: Callable[[Session], int] = getattr(self._module(), self.function)
        return found

    def flags(self) -> list[Flag]:
        """Return the verb's own flags, without the global flags."""
        return table(self._module().FLAGS.get(self.function, ""))

    def _module(self) -> Any:
        name = f"fleet.cli.bd.{self.module}"
        return __import__(name, fromlist=["FLAGS"])


def find_verb(name: str, rest: list[str]) -> tuple[Verb, list[str]]:
    """Return the verb, which has one or two words, and the remaining words. Raises UsageError."""
    if name in VERBS or name in GROUPS or f"{name} add" in VERBS:
        for at, word in enumerate(rest):
            pair = ALIASES.get(f"{name} {word}", f"{name} {word}")
            if pair in VERBS:
                return Verb(pair), rest[:at] + rest[at + 1 :]
            if not word.startswith("-"):
                break
    name = ALIASES.get(name, name)
    if name in VERBS:
        return Verb(name), rest
    if name in GROUPS:
        known = [key.split(" ")[1] for key in VERBS if key.startswith(name + " ")]
        raise UsageError(f"bd {name} needs one of: {', '.join(known)}", hint=f"`fleet bd {name} {known[0]} --help`")
    if name in UNSUPPORTED:
        raise UsageError(f"bd {name} is not supported by fleet", hint=UNSUPPORTED[name])
    raise UsageError(f'unknown command "{name}" for "bd"', hint=_suggestion(name))


def _suggestion(name: str) -> str:
    near = closest(name, [*VERBS, *ALIASES], most=2)
    return f"did you mean {' or '.join(near)}? " * bool(near) + "`fleet bd --help` lists the commands."


def show(name: str, rest: list[str]) -> int:
    """Print the general help, or with `help VERB` the help of one verb."""
    words = [word for word in rest if not word.startswith("-")]
    if name == "help" and words:
        verb, _ = find_verb(words[0], words[1:])
        return show_verb(verb)
    lines = ["bd, beads' command line, on fleet's queue", "", "usage: fleet bd <command> [flags]", "", "commands:"]
    lines += [f"  {verb:<16} {row[4]}" for verb, row in VERBS.items()]
    lines += ["", "flags of every command:", *_rows(table(GLOBAL_FLAGS)), "", write_examples("bd")]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def show_verb(verb: Verb) -> int:
    lines = [verb.help, "", f"usage: fleet bd {verb.name} {verb.usage}".rstrip() + " [flags]"]
    flags = verb.flags()
    if flags:
        lines += ["", "flags:", *_rows(flags)]
    lines += ["", "flags of every command:", *_rows(table(GLOBAL_FLAGS))]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _rows(flags: list[Flag]) -> list[str]:
    shown = [
        (f"{', '.join(flag.names)} {'' if flag.kind == 'FLAG' else flag.kind}".strip(), flag.help) for flag in flags
    ]
    return [f"  {left:<34} {right}".rstrip() for left, right in shown]
