"""The supervisor process. In the background it runs without click, whose import takes longer than starting Python."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

from fleet.actions.control import homes, main, supervisor
from fleet.actions.tasks.rights import refuse_agents
from fleet.cli import person
from fleet.cli.bd.arguments import parse, table
from fleet.home import find
from fleet.supervisor.start_report import StartReport

if TYPE_CHECKING:
    from typing import Any

#: The options with which `actions.supervisor_start` starts a supervisor. `cli.run` documents them for users.
FLAGS = """
--quiet
--only-made
--report INT
--coder TEXT
--name TEXT
--labels TEXT
--listen TEXT
--slots INT
"""


def run_background(argv: list[str]) -> int:
    """Run as the supervisor that a command started in the background with these options."""
    gc.freeze()
    gc.enable()
    given = parse(argv, table(FLAGS))
    told: dict[str, Any] = {name: given.text(name) for name in ("coder", "name", "labels", "listen") if given.has(name)}
    told |= {"slots": given.number("slots", 0)} if given.has("slots") else {}
    report = given.number("report", 0) if given.has("report") else None
    supervise(told, quiet=given.flag("quiet"), only_made=given.flag("only-made"), report=report)
    return 0


def supervise(told: dict[str, Any], *, quiet: bool, only_made: bool = False, report: int | None = None) -> None:
    """Run as the supervisor of this home until it is stopped."""
    refuse_agents(person.calling(find()), "run or stop the supervisor")
    said = supervisor.told(**told)
    if homes.ensure(find()):
        sys.stderr.write(f"fleet home initialized at {find().root}\n")
    main.supervise(find(), said=said, only_made=only_made, to_terminal=not quiet, report=StartReport(report))
