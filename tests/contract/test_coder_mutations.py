"""Damaged output of real coders, which must neither raise nor make an unfinished run look finished.

Each stream is a recording with a random change. A line counts as untouched if it is present as it was recorded. The
tests of the recordings decide which untouched lines are a coder's last word.
"""

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from contract.coder_recordings import lines_of, recorded_coders, scenarios, the_outcome, the_run
from fleet.coders import load
from fleet.coders.base import Coder
from fleet.core.event import Kind
from fleet.core.outcome import Exit
from fleet.core.run import Ending

STREAMS = 300
ENDED_WELL = Exit(status=0)
GARBAGE = ("", "{", "null", "[]", "Segmentation fault", '{"type":', "\ufffd" * 40, '{"type": "result"}', "[" * 5_000)
WRONG: tuple[Any, ...] = (None, True, -1, 1.5, 10**30, 2**63, "", "\0\ud800", [], {}, [[]], [{}], {"a": {}}, [None, 5])

Lines = list[str]


def cut(lines: Lines, choose: random.Random) -> Lines:
    """Cut the output within a line."""
    at = choose.randrange(len(lines))
    return [*lines[:at], shorter(lines[at], choose)]


def cut_within(lines: Lines, choose: random.Random) -> Lines:
    """Cut one line and keep the following ones."""
    at = choose.randrange(len(lines))
    return [*lines[:at], shorter(lines[at], choose), *lines[at + 1 :]]


def shorter(line: str, choose: random.Random) -> str:
    return line[: choose.randrange(max(1, len(line) - 1))]


def drop(lines: Lines, choose: random.Random) -> Lines:
    return [line for line in lines if choose.random() < 0.7]


def reorder(lines: Lines, choose: random.Random) -> Lines:
    return choose.sample(lines, len(lines))


def double(lines: Lines, choose: random.Random) -> Lines:
    return [line for line in lines for _ in range(choose.choice((1, 1, 2, 3)))]


def garbage(lines: Lines, choose: random.Random) -> Lines:
    """Insert foreign lines."""
    for _ in range(3):
        at = choose.randrange(len(lines) + 1)
        lines = [*lines[:at], choose.choice(GARBAGE), *lines[at:]]
    return lines


def nuls(lines: Lines, choose: random.Random) -> Lines:
    """Insert control characters into lines, where JSON allows none."""
    spoilt = [line[: (at := choose.randrange(1, max(2, len(line))))] + "\0" + line[at:] for line in lines]
    return [choose.choice(pair) for pair in zip(lines, spoilt, strict=True)]


def joined(lines: Lines, choose: random.Random) -> Lines:
    """Join two lines."""
    at = choose.randrange(len(lines))
    return [*lines[:at], "".join(lines[at : at + 2]), *lines[at + 2 :]]


def wrong_values(lines: Lines, choose: random.Random) -> Lines:
    """Replace values by other types and meaningless numbers, anywhere within a line."""
    return [misvalued(line, choose) if choose.random() < 0.5 else line for line in lines]


def misvalued(line: str, choose: random.Random) -> str:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return line
    places: list[tuple[Any, Any]] = []
    found = [said]
    while found:
        inside = found.pop()
        keys: Any = inside if isinstance(inside, dict) else range(len(inside)) if isinstance(inside, list) else ()
        for key in keys:
            places.append((inside, key))
            found.append(inside[key])
    for inside, key in choose.sample(places, min(len(places), choose.choice((1, 1, 3, 10)))):
        inside[key] = choose.choice(WRONG)
    return json.dumps(said)


DAMAGE: tuple[Callable[[Lines, random.Random], Lines], ...] = (
    *(cut, cut_within, drop, reorder, double, garbage, nuls, joined),
)


def last_words(coder: Coder, lines: Lines, recorded: frozenset[str]) -> list[bool]:
    """Return for each untouched last word, in order, whether it reports success."""
    words = [event.ok for line in lines if line in recorded for event in coder.parse(line) if event.kind == Kind.RESULT]
    return [ok is True for ok in words]


def streams(name: str, number: int) -> tuple[Lines, Lines, random.Random]:
    """Return the lines of a recording, the same lines with damage, and the random generator."""
    choose = random.Random(f"{name} {number}")
    recorded = lines_of(name, choose.choice(scenarios(name)))
    lines = recorded
    for damage in choose.sample(DAMAGE, choose.choice((1, 1, 2, 3))):
        lines = damage(lines, choose) if lines else lines
    return recorded, lines, choose


@pytest.mark.parametrize("name", recorded_coders())
def test_damaged_stream_is_finished_only_when_its_last_word_is_intact(name: str) -> None:
    coder = load(name)
    finished = 0
    for number in range(STREAMS):
        recorded, lines, _ = streams(name, number)
        run = the_run(coder, lines, ENDED_WELL)
        # The result was handed in, so that no other evidence hides the last words.
        outcome = the_outcome(coder, run, ENDED_WELL, result_file=coder.tells_result)
        if outcome.ending == Ending.FINISHED:
            finished += 1
            words = last_words(coder, lines, frozenset(recorded))
            assert words and words[-1], f"stream {number}: finished without a good last word: {outcome.reason}"
    if coder.tells_result:
        assert 0 < finished < STREAMS, "some streams are harmed where it matters, and some are not"


@pytest.mark.parametrize("name", recorded_coders())
def test_meaningless_values_neither_raise_nor_reach_the_run(name: str) -> None:
    coder = load(name)
    for number in range(STREAMS):
        _, lines, choose = streams(name, number)
        run = the_run(coder, wrong_values(lines, choose), ENDED_WELL)
        the_outcome(coder, run, ENDED_WELL)
        json.dumps(run.as_dict(), default=str, allow_nan=False).encode()
        run.session.encode()
        assert 0 <= run.tokens < 2**63
        assert run.context_peak is None or 0 <= run.context_peak < 2**63
        assert run.context_window is None or 0 <= run.context_window < 2**63
        assert run.cost_usd is None or 0 <= run.cost_usd < 2**63
