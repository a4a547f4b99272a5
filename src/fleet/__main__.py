"""The program `fleet` (also `flt`, and `python -m fleet`)."""

import os
import sys


def main() -> None:
    """Run the command line of this process. `bd` has a way of its own: agents call it hundreds of times."""
    args = sys.argv[1:]
    if args[:1] == ["bd"]:
        from fleet.cli.bd import main as bd

        sys.exit(bd(args[1:]))

    from fleet.warm.asking import ask

    code = ask(args)
    if code is not None:
        os._exit(code)  # nothing of ours is left to be written

    sys.exit(run())


def run() -> int:
    """The command that `sys.argv` names, here; its exit code."""
    from fleet.cli.errors import run as told
    from fleet.cli.main import call

    args, name = sys.argv[1:], sys.argv[0].rpartition("/")[2]
    return told(lambda: call(args, name if name in ("fleet", "flt") else "fleet"))


def serve_warm() -> None:
    """Be the warm process of the home that is named: what the supervisor starts."""
    from fleet.home import Home
    from fleet.warm.serving import serve

    serve(Home(sys.argv[1]), load)


def load() -> "Callable[[], int]":
    """Import all that a command needs; what runs one."""
    import asyncio  # noqa: F401 - for teardown commands
    import contextlib
    import importlib

    from fleet.assembly import load_embedded
    from fleet.cli.main import ALIASES, COMMANDS
    from fleet.coders import CODERS
    from fleet.config import load as settings
    from fleet.core.errors import FleetError
    from fleet.home import Home
    from fleet.warm.asking import COMMANDS as WARM

    for word in sorted(WARM):
        importlib.import_module(COMMANDS[ALIASES.get(word, word)][0].partition(":")[0])
    for place in CODERS.values():
        importlib.import_module(place.partition(":")[0])
    load_embedded()
    with contextlib.suppress(FleetError, IndexError):  # what the settings look like is worked out once
        settings(Home(sys.argv[1]), env={})
    return run


TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

if __name__ == "__main__":
    main()
