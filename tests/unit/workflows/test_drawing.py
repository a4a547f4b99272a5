"""Drawn graphs: what they look like, that every line leads where it should, and what happens where there is no room."""

import random
import re
from collections.abc import Iterator

from fleet.core.workflow import Plan
from fleet.workflows.drawing import draw
from flows import a_plan, a_stage

DIAMOND = (a_stage("start"), a_stage("left", "start"), a_stage("right", "start"), a_stage("end", "left", "right"))


def test_a_fan_and_its_end() -> None:
    assert draw(a_plan(*DIAMOND), {}) == (
        "○ start ─┬─ ○ left ──┬─ ○ end\n"  #
        "         └─ ○ right ─┘"
    )


def test_states_are_marks_and_words() -> None:
    states = {"start": "succeeded", "left": "running", "right": "failed", "end": "waiting"}
    assert draw(a_plan(*DIAMOND), states) == (
        "✓ start (succeeded) ─┬─ ◐ left (running) ─┬─ ○ end (waiting)\n                     └─ ✗ right (failed) ─┘"
    )


def test_plain_characters() -> None:
    drawn = draw(a_plan(*DIAMOND), {"start": "skipped", "left": "needs you"}, ascii_only=True)
    assert drawn == (
        "- start (skipped) -+- ! left (needs you) -+- o end\n"  #
        "                   +- o right ------------+"
    )
    assert draw(a_plan(a_stage("é")), {}, ascii_only=True) == "o ?"


def test_an_edge_over_several_columns_has_a_line_of_its_own() -> None:
    plan = a_plan(a_stage("a"), a_stage("b", "a"), a_stage("c", "a", "b"))
    assert draw(plan, {}) == (
        "○ a ─┬─ ○ b ─┬─ ○ c\n"  #
        "     └───────┘"
    )


def test_chains_side_by_side_do_not_touch() -> None:
    plan = a_plan(a_stage("a"), a_stage("b"), a_stage("a2", "a"), a_stage("b2", "b"))
    assert draw(plan, {}) == (
        "○ a ───── ○ a2\n"  #
        "○ b ───── ○ b2"
    )


def test_lines_that_mean_different_things_leave_from_rows_of_their_own() -> None:
    plan = a_plan(a_stage("a"), a_stage("b"), a_stage("x", "b"), a_stage("y", "a", "b"))
    assert draw(plan, {}) == (
        "○ a ─┬─── ○ y\n"  #
        "○ b ─┘ ┌─ ○ x\n"
        "└──────┘"
    )


def test_where_there_is_no_room_it_is_a_list() -> None:
    assert draw(a_plan(*DIAMOND), {"left": "running"}, width=26).split("\n") == [
        "○ start",
        "◐ left (running)  after s…",
        "○ right  after start",
        "○ end  after left, right",
    ]
    assert draw(a_plan(*DIAMOND), {}, width=29).count("\n") == 1
    assert draw(a_plan(*DIAMOND), {}, width=28).count("\n") == 3


def test_a_plan_of_thousands_is_a_list() -> None:
    plan = a_plan(*(a_stage(f"s{number}") for number in range(2000)))
    assert draw(plan, {}).count("\n") == 1999


def test_wide_characters_keep_the_columns_straight() -> None:
    plan = a_plan(a_stage("日本"), a_stage("x"), a_stage("end", "日本", "x"))
    assert draw(plan, {}) == (
        "○ 日本 ─┬─ ○ end\n"  #
        "○ x ────┘"
    )


def graphs() -> Iterator[Plan]:
    chance = random.Random(3)
    for size in range(1, 14):
        for _ in range(10):
            names = [f"n{number}" for number in range(size)]
            yield a_plan(
                *(a_stage(n, *chance.sample(names[:at], min(at, chance.randint(0, 3)))) for at, n in enumerate(names))
            )


def test_every_stage_of_any_graph_is_drawn_once_and_fits() -> None:
    for plan in graphs():
        for ascii_only in (False, True):
            drawn = draw(plan, {}, width=400, ascii_only=ascii_only)
            for stage in plan.stages:
                assert re.sub("after .*", "", drawn).split().count(stage.name) == 1, drawn
            assert ascii_only is False or drawn.isascii()
        assert all(len(line) <= 40 for line in draw(plan, {}, width=40).split("\n"))


# Where a line goes on from a character that it came to in this direction.
GOES = {
    "right": {"─": "right", "┬": "right down", "┴": "right up", "┘": "up", "┐": "down", "┤": "up down"},
    "down": {
        "│": "down",
        "─": "down",
        "└": "right",
        "├": "right down",
        "┤": "down",
        "┴": "right",
        "┘": "",
        "┼": "right down",
    },
    "up": {"│": "up", "─": "up", "┌": "right", "├": "right up", "┤": "up", "┬": "right", "┐": "", "┼": "right up"},
}
GOES["right"]["┼"] = "right up down"
STEP = {"right": (0, 1), "down": (1, 0), "up": (-1, 0)}


def edges_in(drawn: str) -> set[tuple[str, str]]:
    """The edges that somebody sees who follows every line from the left to the right."""
    rows = drawn.split("\n")
    wide = max(map(len, rows))
    grid = [row.ljust(wide) for row in rows]
    found = set()
    for row, line in enumerate(grid):
        for column in (at for at, char in enumerate(line) if char == "○"):
            name = line[column:].split()[1]
            ways = (
                [(row, column + 2 + len(name), "right")] if line[column + 3 + len(name) :][:1] not in ("", " ") else []
            )
            below = row + 1
            while below < len(grid) and grid[below][column] in "├└":
                ways.append((below, column, "right"))
                below += 1
            found |= {(name, target) for target in followed(grid, ways)}
    return found


def followed(grid: list[str], ways: list[tuple[int, int, str]]) -> set[str]:
    found, seen = set(), set(ways)
    while ways:
        row, column, direction = ways.pop()
        row, column = row + STEP[direction][0], column + STEP[direction][1]
        char = grid[row][column]
        if direction == "right" and char == " ":
            assert grid[row][column + 1] == "○", (row, column)
            found.add(grid[row][column:].split()[1])
            continue
        for turn in GOES[direction][char].split():
            if (row, column, turn) not in seen:
                seen.add((row, column, turn))
                ways.append((row, column, turn))
    return found


def test_who_follows_the_lines_of_any_graph_finds_its_edges_and_no_others() -> None:
    for plan in graphs():
        drawn = draw(plan, {}, width=400)
        if "after" in drawn:
            assert len(plan.stages) > 5, "a list is for lines that would run into each other"
            continue
        assert edges_in(drawn) == {(need, stage.name) for stage in plan.stages for need in stage.needs}, drawn
