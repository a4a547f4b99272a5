"""The `bd` command: beads' command line on fleet's queue.

It imports only what a call needs, because agents call it often.
"""

from __future__ import annotations

import os
import sys

from fleet.cli.bd.arguments import GLOBAL_FLAGS, Arguments, parse, split_verb, table
from fleet.cli.bd.session import Session, wants_json, write_json
from fleet.cli.bd.text import shown
from fleet.cli.bd.verbs import find_verb
from fleet.cli.errors import run
from fleet.core.errors import FleetError, Usage
from fleet.home import find
from fleet.wake import wake

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fleet.cli.bd.verbs import Verb


def program() -> None:
    """Run as `bd` and exit the process with the command's exit code."""
    sys.exit(main(sys.argv[1:]))


def main(argv: list[str]) -> int:
    """Run one bd command and return its exit code. Errors are printed in bd's format."""
    return run(lambda: _main(argv))


def _main(argv: list[str]) -> int:
    as_json = "--json" in argv
    try:
        home = find()
        if home.names_queue(os.environ):
            from fleet.cli.bd import forwarding  # needed only if bd stores the tasks

            if forwarding.is_forwarded(home, argv):
                return forwarding.forward(home, argv)
        _check_text(argv)
        name, rest = split_verb(argv)
        if name in ("", "help"):
            from fleet.cli.bd import help_text

            return help_text.show(name, rest)
        verb, rest = find_verb(name, rest)
        arguments = parse(rest, table(GLOBAL_FLAGS) + verb.flags())
        as_json = wants_json(arguments)
        return _carry_out(verb, arguments)
    except FleetError as error:
        # Clients read errors from stdout or stderr, so an error in JSON is also printed on stderr.
        sys.stderr.write(f"Error: {shown(str(error))}\n" + (f"Hint: {shown(error.hint)}\n" if error.hint else ""))
        if as_json:
            write_json({"error": str(error), **({"hint": error.hint} if error.hint else {})})
        return 1 if isinstance(error, Usage) else error.exit_code


def _carry_out(verb: Verb, arguments: Arguments) -> int:
    if arguments.flag("help"):
        from fleet.cli.bd import help_text

        return help_text.show_verb(verb)
    _check_global(verb, arguments)
    session = Session(arguments, writes=verb.writing(arguments))
    try:
        return verb.load()(session)
    finally:
        session.close()
        if verb.writing(arguments):
            wake(session.home)


def _check_global(verb: Verb, arguments: Arguments) -> None:
    for unsupported in ("db", "global", "profile"):
        if arguments.has(unsupported):
            raise Usage(f"--{unsupported} is not supported by fleet bd", hint="set FLEET_HOME to choose the queue.")
    if verb.writing(arguments) and arguments.flag("readonly"):
        raise FleetError(f"operation '{verb.name}' is not allowed in read-only mode", hint="leave --readonly out.")
    directory = arguments.text("directory")
    if directory:
        try:
            os.chdir(directory)
        except OSError as error:
            raise FleetError(f'cannot use -C directory "{directory}": {error.strerror}') from error


def _check_text(argv: list[str]) -> None:
    for at, word in enumerate(argv, 1):
        try:
            word.encode()
        except UnicodeEncodeError:
            raise Usage(f"argument {at} is not valid UTF-8", hint="pass text as UTF-8.") from None
