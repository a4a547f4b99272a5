"""The text of a pull request: the task, its receipt and its cost. Pure.

Text from agents and tasks is put in fences. There, an @ notifies no user and a word before #1 closes no issue. A
title cannot have a fence, so a zero-width space breaks such references.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from fleet.actions.proof.receipt_words import MEANING, meaning, sections
from fleet.core.quoting import clean
from fleet.core.run import UNKNOWN, total_cost

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fleet.core.receipt import Receipt
    from fleet.core.run import Run
    from fleet.core.task import Task

#: Limits on the length of the text and its parts. A forge accepts 65,536 characters at most.
LONGEST, LONGEST_TITLE, LONGEST_ASKED, LONGEST_RECEIPT = 60_000, 200, 8_000, 30_000
NO_WIDTH = "\u200b"
#: The references that a forge acts on: @name, #1, GH-1.
CALLS = re.compile(r"([@#])(?=\w)|(?<=[Gg][Hh])(-)(?=\d)")
FENCE = re.compile(r"`{3,}")
#: A row of backticks that would need an even longer fence, and its replacement.
ROW, LONGEST_ROW = re.compile(r"`{21,}"), "`" * 20
#: The folders of an absolute path on this machine. URLs and relative paths do not match.
PATHS = re.compile(
    r"(?:(?<![\w./~-])|(?<=\s-\w))(?:file://)?"
    r"/(?:home|Users|root|tmp|var|private|Volumes|opt|mnt|media|srv|usr|etc|run|data|nix|s?bin|Library|work\w*)"
    r"(?:/[^\s/`'\",;:()<>|]+)*/"
)
CUT = "\n… (truncated)"


def title_of(task: Task) -> str:
    line = " ".join(_plain(task.title).split())
    line = line if len(line) <= LONGEST_TITLE else line[: LONGEST_TITLE - 1] + "…"
    return quiet(line) or task.id


def text_of(task: Task, receipt: Receipt | None, runs: Sequence[Run], *, commit: str, output: bool = False) -> str:
    """Return the text of a request, or of a comment on a later result.

    With `output`, it includes the verify command's output.
    """
    run = next((each for each in runs if receipt is not None and each.id == receipt.run_id), None)
    finding = receipt.finding if receipt else task.finding
    means = meaning(receipt) if receipt else MEANING.get(finding, "nothing is known about the work")
    asked = "\n\n".join(part for part in (task.title, task.description) if part.strip())
    parts = [f"**{finding or 'no finding'}** – {means}.", *_moved(receipt, commit)]
    parts += ["### What was asked", fenced(asked, LONGEST_ASKED)]
    if receipt is not None:
        words = (
            f"{label}: " + "\n  ".join(map(clean, lines)) for label, lines in sections(receipt, run, output=output)
        )
        parts += ["### The receipt", fenced(PATHS.sub("…/", "\n".join(words)), LONGEST_RECEIPT)]
    parts += ["### The cost", _cost(runs), _footer(task, receipt, commit)]
    return "\n\n".join(parts)[:LONGEST] + "\n"


def hide_places(text: str, places: Iterable[str]) -> str:
    """Return a text without the names of these folders of this machine."""
    for place in sorted({*places, *map(os.path.realpath, places)}, key=len, reverse=True):
        if len(place) > 1:
            text = re.sub(rf"(?<![\w./-]){re.escape(place)}(?![\w-])", "…", text)
    return text


def fenced(text: str, longest: int) -> str:
    """Return foreign text unchanged but inert: in a fence longer than any fence inside."""
    plain = ROW.sub(LONGEST_ROW, _plain(text))
    plain = plain if len(plain) <= longest else plain[:longest] + CUT
    fence = "`" * (max([2, *(len(found) for found in FENCE.findall(plain))]) + 1)
    return f"{fence}text\n{plain.rstrip()}\n{fence}"


def quiet(text: str) -> str:
    """Return a text that notifies no user, closes no issue and contains no markup, for use outside of a fence."""
    broken = CALLS.sub(lambda found: f"{found[0]}{NO_WIDTH}", text)
    return broken.replace("<", "‹").replace("://", f":{NO_WIDTH}//")


def _plain(text: str) -> str:
    """Return a text without invisible characters: each of them is replaced by a visible mark."""
    return "".join(char if char.isprintable() or char in "\n\t" else "�" for char in text.replace("\r\n", "\n"))


def _moved(receipt: Receipt | None, commit: str) -> list[str]:
    if receipt is None:
        return ["No receipt exists: fleet has not seen a run of the task end."]
    git = (receipt.told.get("pieces") or {}).get("git")
    tip = str(git.get("tip") or "") if isinstance(git, dict) else ""
    if tip in ("", commit):
        return []
    return [f"The branch has moved since: the receipt covers {tip[:12]}, and this is {commit[:12]}."]


def _cost(runs: Sequence[Run]) -> str:
    if not runs:
        return "No agent has run."
    usd, basis = total_cost(runs)
    took = sum((run.ended_at - run.started_at).total_seconds() for run in runs if run.ended_at is not None)
    count = f"{len(runs)} run{'s' if len(runs) > 1 else ''}"
    cost = "no known cost" if usd is None else f"{'at least ' if basis == UNKNOWN else ''}${usd:.2f}"
    return f"{count}, {cost}, {sum(run.tokens for run in runs):,} tokens, {took / 60:.1f} minutes."


def _footer(task: Task, receipt: Receipt | None, commit: str) -> str:
    of = f"Receipt `{receipt.hash[:16]}` of run `{receipt.run_id}`" if receipt else f"Task `{task.id}`"
    return f"<sub>{of}, commit `{commit[:12]}`. Written by fleet from what it saw itself, not by the agent.</sub>"
