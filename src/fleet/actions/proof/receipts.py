"""Receipts for users: find the receipt of a run, and check it and its chain for changes."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.control.home_files import LARGEST, HomeFile, text_of
from fleet.actions.tasks.names import ANYWHERE, find_task
from fleet.actions.tasks.runs import view
from fleet.core.errors import FleetError, TaskNotFound
from fleet.core.jsontext import decode
from fleet.core.receipt import RECHECK, flaws
from fleet.supervisor.task_folder import home_of

if TYPE_CHECKING:
    from typing import Any

    from fleet.actions.tasks.names import NameScope
    from fleet.assembly import Fleet
    from fleet.core.receipt import Receipt
    from fleet.core.run import Run
    from fleet.core.task import Task

FILE = "receipt.json"
#: The id of a run: the id of its task, a slash and its number.
RUN = re.compile(r"(.+)/(\d{1,9})")
#: Fields of the file that are not in the body of the stored row.
OUTSIDE = ("run_id", "task_id", "owner", "previous", "hash")
MOST_FAULTS = 20


class Shown(NamedTuple):
    """A task, one of its runs and the run's receipt."""

    task: Task
    run: Run | None
    receipt: Receipt
    others: int  # number of the task's other receipts

    def view(self, fleet: Fleet) -> dict[str, Any]:
        receipt = self.receipt
        plain = {name: value for name, value in receipt.as_dict().items() if name not in ("body", "made_at")}
        run = view(fleet, self.run) if self.run else None
        return {**plain, "made_at": receipt.made_at.isoformat(), **receipt.told, "run": run}


class ReceiptCheck(NamedTuple):
    """The result of checking a receipt and its chain."""

    receipts: int  # length of the chain
    faults: list[str]  # differences from what was recorded
    notes: list[str]  # what could not be checked

    def view(self) -> dict[str, Any]:
        return {"ok": not self.faults, "receipts": self.receipts, "faults": self.faults, "notes": self.notes}


def find_receipt(fleet: Fleet, name: str, number: int | None = None, scope: NameScope = ANYWHERE) -> Shown:
    """Return the receipt of the run that a name means: the named run, or the latest run of a task with a receipt.

    Raises the errors of `find_task`, and FleetError if no receipt exists.
    """
    key, number = _meant(fleet, name, number, scope)
    found = fleet.store.receipts.of_task(key)
    if number is None:
        if not found:
            raise FleetError(f"{key} has no receipt yet", hint="wait until a run ends; `fleet runs` lists the runs")
        chosen = found[-1]
    else:
        run_id = f"{key}/{number}"
        if fleet.store.runs.get(run_id) is None:
            raise FleetError(f"{key} has no run {number}", hint=f"run `fleet runs {key}` to list its runs")
        made = fleet.store.receipts.get(run_id)
        if made is None:
            raise FleetError(f"run {number} of {key} has no receipt", hint="wait until the run ends")
        chosen = made
    return Shown(fleet.store.tasks.get(key), fleet.store.runs.get(chosen.run_id), chosen, len(found) - 1)


def check(fleet: Fleet, shown: Shown) -> ReceiptCheck:
    """Check that a receipt agrees with its hash, its chain, its run and its file."""
    receipt, run = shown.receipt, shown.run
    chain = fleet.store.receipts.chain(receipt.owner)
    faults = [f"{receipt.run_id}: {flaw}" for flaw in flaws(receipt)]
    faults += _breaks(chain, receipt)
    if run is None:
        faults += [] if RECHECK in receipt.run_id else [f"{receipt.run_id}: no such run is recorded"]
    elif run.receipt and run.receipt != receipt.hash:
        faults.append(f"{receipt.run_id}: its run names another receipt")
    elif run.finding != receipt.finding:
        faults.append(f"{receipt.run_id}: its run says {run.finding or 'nothing'}, its receipt {receipt.finding}")
    differing, notes = _file(fleet, shown)
    return ReceiptCheck(len(chain), (faults + differing)[:MOST_FAULTS], notes)


def _meant(fleet: Fleet, name: str, number: int | None, scope: NameScope) -> tuple[str, int | None]:
    """Return the task, and the run's number if known.

    A recorded run comes first, because a branch may look like a run.
    """
    if run := fleet.store.runs.get(name):
        return run.task_id, run.number
    try:
        return find_task(fleet, name, scope=scope), number
    except TaskNotFound:
        part = RUN.fullmatch(name)
        if part is None:
            raise
        return find_task(fleet, part[1], scope=scope), int(part[2])


def _breaks(chain: list[Receipt], receipt: Receipt) -> list[str]:
    """Return the faults of a chain: receipts that were changed, or that do not name the receipt before them."""
    found, before = [], ""
    for each in chain:
        if each.run_id != receipt.run_id:
            found += [f"{each.run_id}: {flaw}" for flaw in flaws(each)]
        if each.previous != before:
            found.append(f"{each.run_id}: it does not follow the receipt before it; one is missing, or was changed")
        before = each.hash
    if receipt.run_id not in {each.run_id for each in chain}:
        found.append(f"{receipt.run_id}: it is not in the chain of {receipt.owner}")
    return found


def _file(fleet: Fleet, shown: Shown) -> tuple[list[str], list[str]]:
    """Return how the file beside the run differs, and why it could not be read. An agent can write there."""
    receipt, run = shown.receipt, shown.run
    if run is None:
        return [], []
    place = HomeFile(home_of(fleet.home, run).task(run.task_id), f"runs/{run.number}/{FILE}")
    try:
        text = "".join(text_of(place))
        told = decode(text)
    except FleetError as error:
        return [], [f"{error}: the database counts"]
    except (ValueError, RecursionError):
        return [f"{place} is not the JSON that fleet wrote"], []
    if not isinstance(told, dict) or len(text) >= LARGEST:
        return [f"{place} is not the JSON that fleet wrote"], []
    expected: dict[str, Any] = receipt.told | {name: getattr(receipt, name) for name in OUTSIDE}
    differing = [name for name, value in expected.items() if told.get(name) != value]
    if _moment(told.get("made_at")) != receipt.made_at:
        differing.append("made_at")
    return ([f"{place} differs from the database: {', '.join(differing)}"] if differing else []), []


def _moment(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
