"""Recorded output of real coders and the expected result of each recording."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from builders import a_task
from fleet.coders.base import Coder
from fleet.core.outcome import Exit, RunObservations, outcome_of
from fleet.core.run import Outcome, Run
from fleet.supervisor.run.fold import fold

RECORDINGS = Path(__file__).parent.parent / "recordings" / "coders"
#: The time at which recordings are read. Clock times in the recordings are relative to it.
READ_AT = datetime(2026, 11, 15, 18, 0, tzinfo=UTC)


def recorded_coders() -> list[str]:
    """Return the names of coders that have recordings."""
    return sorted(folder.name for folder in RECORDINGS.iterdir() if folder.is_dir())


def scenarios(coder: str) -> list[str]:
    """Return the names of the recordings of a coder."""
    return sorted(path.stem for path in (RECORDINGS / coder).glob("*.jsonl"))


def lines_of(coder: str, scenario: str) -> list[str]:
    """Return the lines that a run printed. JSON may contain other line ends."""
    return (RECORDINGS / coder / f"{scenario}.jsonl").read_text("utf-8").removesuffix("\n").split("\n")


def expectations(coder: str) -> dict[str, dict[str, Any]]:
    """Return the expected values of each recording of a coder."""
    found: dict[str, dict[str, Any]] = json.loads((RECORDINGS / coder / "expected.json").read_text("utf-8"))
    return found


def the_run(coder: Coder, lines: Iterable[str], exit: Exit, stderr: str = "") -> Run:
    """Return the run that printed these lines and had this exit status."""
    run = Run(id="fleet-a/1", task_id="fleet-a", number=1, epoch=1, owner="host", started_at=READ_AT)
    for line in lines:
        run = fold(run, coder.parse(line), READ_AT)
    explained = coder.explain(exit.status, stderr) if run.result_at is None else None
    return fold(run, [explained], READ_AT) if explained else run


def the_outcome(coder: Coder, run: Run, exit: Exit, **facts: Any) -> Outcome:
    seen = RunObservations(
        run=run,
        task=a_task(),
        exit=exit,
        tells_result=coder.tells_result,
        result_needs_exit_0=coder.result_needs_exit_0,
        **facts,
    )
    return outcome_of(seen)
