"""A plan drawn with characters: stages in columns by depth, lines between them; a list where that is too wide."""

from __future__ import annotations

from functools import partial
from itertools import accumulate, pairwise, zip_longest
from typing import TYPE_CHECKING, NamedTuple
from unicodedata import combining, east_asian_width

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fleet.core.workflow import Plan, Stage

#: A larger one is a list: nobody can follow that many lines.
MOST_DRAWN = 150

#: What a stage's state looks like; every other word is one that still waits.
MARKS = {
    "running": "◐",
    "in_progress": "◐",
    "succeeded": "✓",
    "completed": "✓",
    "completed_no_changes": "✓",
    "closed": "✓",
    "done": "✓",
    "failed": "✗",
    "cancelled": "✗",
    "stopped": "✗",
    "blocked": "●",
    "needs you": "●",
    "skipped": "–",
}
WAITING = "○"
_ASCII_MARKS = {"◐": ">", "✓": "+", "✗": "x", "●": "!", "–": "-", WAITING: "o"}

_LEFT, _RIGHT, _UP, _DOWN = 1, 2, 4, 8
_LINES = {
    0: " ",
    **dict.fromkeys((_LEFT, _RIGHT, _LEFT | _RIGHT), "─"),
    **dict.fromkeys((_UP, _DOWN, _UP | _DOWN), "│"),
    _RIGHT | _DOWN: "┌",
    _LEFT | _DOWN: "┐",
    _RIGHT | _UP: "└",
    _LEFT | _UP: "┘",
    _UP | _DOWN | _RIGHT: "├",
    _UP | _DOWN | _LEFT: "┤",
    _LEFT | _RIGHT | _DOWN: "┬",
    _LEFT | _RIGHT | _UP: "┴",
    _LEFT | _RIGHT | _UP | _DOWN: "┼",
}


def draw(plan: Plan, states: Mapping[str, str], *, width: int = 80, ascii_only: bool = False) -> str:
    """The plan in lines of at most this width; `states` has a word for each stage whose state is known."""
    drawn = _graph(plan.stages, states, width, ascii_only) if len(plan.stages) <= MOST_DRAWN else None
    return drawn if drawn is not None else "\n".join(_listed(plan.stages, states, width, ascii_only))


def marked(stage: Stage, states: Mapping[str, str], *, ascii_only: bool = False) -> str:
    """One stage: a mark, its name, and the word for its state if there is one."""
    state = states.get(stage.name, "")
    mark = MARKS.get(state, WAITING)
    shown = f"{_ASCII_MARKS[mark] if ascii_only else mark} {stage.name}{f' ({state})' if state else ''}"
    return _ascii(shown) if ascii_only else shown


class _Group(NamedTuple):
    """Rows of one column that all lead to the same rows of the next, by one upright line between them."""

    sources: frozenset[int]
    targets: frozenset[int]

    @property
    def top(self) -> int:
        return min(self.sources | self.targets)

    @property
    def bottom(self) -> int:
        return max(self.sources | self.targets)


class _Entry(NamedTuple):
    """A stage in its column; or the line from it to a later column, where it passes by."""

    name: str
    stage: Stage | None


def _graph(stages: Sequence[Stage], states: Mapping[str, str], width: int, ascii_only: bool) -> str | None:
    """The drawing; None where it would be too wide, or lines would run into each other."""
    columns = _columns(stages)
    links = [_links(left, right) for left, right in pairwise(columns)]
    leads = [
        [_of(groups, at) for at in range(len(column))] for column, groups in zip(columns, [*links, []], strict=True)
    ]
    starts = [[0, *accumulate(max(1, len(groups)) for groups in column)] for column in leads]
    height = max((start[-1] for start in starts), default=0)
    blocks: list[list[str]] = []
    for level, column in enumerate(columns):
        texts = [marked(each.stage, states, ascii_only=ascii_only) if each.stage else "" for each in column]
        room = max(map(_width, texts)) + 2
        blocks.append([row for at, text in enumerate(texts) for row in _cell(text, room, len(leads[level][at]))])
        if level < len(links):
            rows_of = partial(_in_rows, leads=leads[level], starts=starts[level : level + 2])
            ordered = _in_order([rows_of(number, group) for number, group in enumerate(links[level])])
            if ordered is None:
                return None
            blocks.append(_gutter(ordered, height))
    wide = [_width(block[0]) for block in blocks]
    if sum(wide) - 2 > width:
        return None
    rows = zip_longest(*blocks, fillvalue=None)
    lines = ["".join(part if part is not None else " " * wide[at] for at, part in enumerate(row)) for row in rows]
    drawn = "\n".join(line[1:].rstrip() for line in lines)
    return _ascii(drawn) if ascii_only else drawn


def _columns(stages: Sequence[Stage]) -> list[list[_Entry]]:
    """The stages by depth, each near what it depends on; with the lines that pass by on their way to a later column."""
    depth: dict[str, int] = {}
    last: dict[str, int] = {}  # the column that the furthest line of a stage leads to
    for stage in stages:
        depth[stage.name] = max((depth[need] + 1 for need in stage.needs), default=0)
        last |= {need: max(last.get(need, 0), depth[stage.name]) for need in stage.needs}
    columns: list[list[_Entry]] = []
    for level in range(max(depth.values(), default=-1) + 1):
        before = {entry.name: at for at, entry in enumerate(columns[-1])} if columns else {}
        found: list[tuple[float, _Entry]] = []
        for number, stage in enumerate(each for each in stages if depth[each.name] == level):
            rows = [before[need] for need in stage.needs]
            found.append((sum(rows) / len(rows) if rows else float(number), _Entry(stage.name, stage)))
        found += [(at, _Entry(name, None)) for name, at in before.items() if last.get(name, 0) > level]
        columns.append([entry for _, entry in sorted(found, key=lambda each: each[0])])
    return columns


def _links(left: Sequence[_Entry], right: Sequence[_Entry]) -> list[_Group]:
    """What leads from one column to the next, by places in the columns, from top to bottom."""
    places = {entry.name: at for at, entry in enumerate(left)}
    targets: dict[frozenset[int], set[int]] = {}
    for at, entry in enumerate(right):
        needs = entry.stage.needs if entry.stage is not None else (entry.name,)
        if needs:
            targets.setdefault(frozenset(places[need] for need in needs), set()).add(at)
    groups = [_Group(sources, frozenset(found)) for sources, found in targets.items()]
    return sorted(groups, key=lambda group: sum(group.targets) / len(group.targets))


def _of(groups: Sequence[_Group], place: int) -> list[int]:
    """The groups that a place leads to: it has a row for each, so that no line means two things."""
    return [number for number, group in enumerate(groups) if place in group.sources]


def _in_rows(number: int, group: _Group, leads: Sequence[list[int]], starts: Sequence[list[int]]) -> _Group:
    sources = frozenset(starts[0][place] + leads[place].index(number) for place in group.sources)
    return _Group(sources, frozenset(starts[1][place] for place in group.targets))


def _cell(text: str, room: int, leads: int) -> list[str]:
    """A stage's text between blanks, or a line that passes by; below it a row for each further line that leads on."""
    if text:
        first = f" {text} {('─' if leads else ' ') * (room - _width(text) - 2)}"
    else:
        first = f"─{'┬' if leads > 1 else '─'}{'─' * (room - 2)}"
    further = [f" {'├' if number < leads - 1 else '└'}{'─' * (room - 2)}" for number in range(1, leads)]
    return [first, *further]


def _gutter(groups: Sequence[_Group], height: int) -> list[str]:
    """The lines between two columns: each group has an upright one, with room between them and at both ends."""
    cells = [[0] * (2 * len(groups) + 1) for _ in range(height)]
    for number, group in enumerate(groups):
        track = 2 * number + 1
        for row in group.sources:
            _run(cells[row], 0, track)
        for row in group.targets:
            _run(cells[row], track, len(cells[row]) - 1)
    for number, group in enumerate(groups):
        _stand(cells, group, 2 * number + 1)
    return ["".join(_LINES[cell] for cell in row) for row in cells]


def _in_order(groups: Sequence[_Group]) -> list[_Group] | None:
    """From left to right so that no line to a target runs along a line from another's source; None where none is so."""
    left = sorted(groups, key=lambda group: (group.top, group.bottom))
    ordered: list[_Group] = []
    while left:
        free = [each for each in left if not any(each.targets & other.sources for other in left if other is not each)]
        if not free:
            return None
        left.remove(free[0])
        ordered.append(free[0])
    return ordered


def _run(row: list[int], start: int, end: int) -> None:
    for at in range(start, end + 1):
        row[at] |= (_LEFT if at > start else 0) | (_RIGHT if at < end else 0)


def _stand(cells: list[list[int]], group: _Group, track: int) -> None:
    """The upright line of a group; where another's line crosses it, that one goes over it."""
    for row in range(group.top, group.bottom + 1):
        joins = row in group.sources or row in group.targets
        if joins:
            up, down = _UP if row > group.top else 0, _DOWN if row < group.bottom else 0
            cells[row][track] |= up | down
        elif not cells[row][track]:
            cells[row][track] = _UP | _DOWN


def _listed(stages: Sequence[Stage], states: Mapping[str, str], width: int, ascii_only: bool) -> list[str]:
    lines = []
    for stage in stages:
        after = f"  after {', '.join(stage.needs)}" if stage.needs else ""
        line = marked(stage, states, ascii_only=ascii_only) + (_ascii(after) if ascii_only else after)
        lines.append(_cut(line, width, "..." if ascii_only else "…"))
    return lines


def _cut(line: str, width: int, mark: str) -> str:
    if _width(line) <= width:
        return line
    while line and _width(line) > width - len(mark):
        line = line[:-1]
    return line + mark


def _width(text: str) -> int:
    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def _ascii(text: str) -> str:
    lines = str.maketrans(dict.fromkeys("┌┐└┘├┤┬┴┼", "+") | {"─": "-", "│": "|", "–": "-", "…": "..."})
    return text.translate(lines).encode("ascii", "replace").decode()
