"""Help of `bd --help` and `bd <verb> --help`, from the parser's own tables."""

from __future__ import annotations

import sys

from fleet.cli.bd.arguments import GLOBAL_FLAGS, table
from fleet.cli.bd.verbs import VERBS, Verb, find_verb
from fleet.cli.examples import write_examples

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fleet.cli.bd.arguments import Flag


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
