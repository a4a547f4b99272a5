"""`fleet bd`: bd's commands on fleet's queue, without click, so that a call is quick.

arguments    parse command lines by tables of flags
batch        bd batch
close        bd close, done and reopen
comments     bd comment and comments
count        bd count, status and blocked
create       bd create, new and q
create_many  bd create --file and --graph
delete       bd delete
dep          bd dep
dep_views    bd dep list, tree and cycles
export       bd export
fields       flags for texts, times and metadata
filters      flags of list, ready, count and search
forward      pass a call to the real bd
graph_plan   JSON plans of bd create --graph
import_      bd import
init         bd init
issue        issues in the format of bd's lists
labels       bd label and tag
list_issues  bd list
placement    choose directory, coder and host of a new task
prime        bd prime
ready        bd ready
search       bd search, stale and children
session      one call: its caller, output format and queue
settings     bd config, statuses, types, where, info and version
shortcuts    bd assign, priority, note, defer, undefer and unclaim
show         bd show
update       bd update
verbs        the table of verbs
"""

from __future__ import annotations

import os
import sys

from fleet.cli.bd.arguments import GLOBAL_FLAGS, Arguments, parse, split_verb, table
from fleet.cli.bd.session import Session, wants_json, write_json
from fleet.cli.bd.verbs import find_verb
from fleet.cli.errors import run
from fleet.cli.text import shown
from fleet.core.errors import FleetError, UsageError
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
            from fleet.cli.bd import forward  # needed only if bd stores the tasks

            if forward.is_forwarded(home, argv):
                return forward.forward(home, argv)
        _check_text(argv)
        name, rest = split_verb(argv)
        if name in ("", "help"):
            from fleet.cli.bd import verbs

            return verbs.show(name, rest)
        verb, rest = find_verb(name, rest)
        arguments = parse(rest, table(GLOBAL_FLAGS) + verb.flags())
        as_json = wants_json(arguments)
        return _carry_out(verb, arguments)
    except FleetError as error:
        # Clients read errors from stdout or stderr, so an error in JSON is also printed on stderr.
        sys.stderr.write(f"Error: {shown(str(error))}\n" + (f"Hint: {shown(error.hint)}\n" if error.hint else ""))
        if as_json:
            write_json({"error": str(error), **({"hint": error.hint} if error.hint else {})})
        return 1 if isinstance(error, UsageError) else error.exit_code


def _carry_out(verb: Verb, arguments: Arguments) -> int:
    if arguments.flag("help"):
        from fleet.cli.bd import verbs

        return verbs.show_verb(verb)
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
            raise UsageError(f"--{unsupported} is not supported by fleet bd", hint="set FLEET_HOME to choose the queue")
    if verb.writing(arguments) and arguments.flag("readonly"):
        raise FleetError(f"operation '{verb.name}' is not allowed in read-only mode", hint="leave --readonly out")
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
            raise UsageError(f"argument {at} is not valid UTF-8", hint="pass text as UTF-8") from None
