"""`fleet status`: what needs you, what works, what is done since you last looked, and totals."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import click

from fleet.actions.control.attention import AttentionItem, AttentionKind, can_answer
from fleet.actions.control.overview import LONGEST, Overview, note_look, overview
from fleet.actions.tasks.screens import note_seen
from fleet.actions.worktrees.rows import AgentRow
from fleet.assembly import open_fleet
from fleet.cli import person, tables
from fleet.cli.tables import NOTHING, cost, count, duration, instant, money
from fleet.cli.text import clean
from fleet.core.jsontext import encode_printable
from fleet.core.task_status import ResultWord, TaskPhase
from fleet.descent import is_agents
from fleet.home import find

#: The width of the output without a screen.
WIDEST = 120
#: Names are padded up to this width. A longer name gets its own line.
NAME_WIDTH = 22
#: The maximum number of rows in each section.
MOST = 10
#: The space between a row's cells, and the indentation of the lines below the row.
GAP, INDENT = "  ", "    "
#: The minimum width of what happened, however little room is left.
LEAST = 16
#: The mark before a row, and its color.
NEEDS = {
    AttentionKind.QUESTION: ("◐", "yellow"),
    AttentionKind.DIALOG: ("◐", "yellow"),
    AttentionKind.PICK: ("✓", "green"),
    AttentionKind.MERGE: ("✓", "green"),
    AttentionKind.PARKED: ("‖", "yellow"),
}
WORKS = {TaskPhase.WAITING: ("◐", "yellow"), TaskPhase.WORKING: ("●", "green")}
RESULTS = {
    ResultWord.MERGED: ("✓", "green"),
    ResultWord.VERIFIED: ("✓", "green"),
    ResultWord.DONE: ("✓", "green"),
    ResultWord.UNVERIFIED: ("~", "yellow"),
    ResultWord.UNCHANGED: ("∅", "yellow"),
    ResultWord.STOPPED: ("■", ""),
}
FAULT, CALM = ("✕", "red"), ("○", "")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON. Does not mark results as seen.")
def status(as_json: bool) -> None:
    """Show what needs you, what is running and what is done.

    `fleet` without a command does the same. Results stay listed for 10 minutes after you first see them.
    """
    home = find()
    midnight = datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    with open_fleet(home) as fleet:
        found = overview(fleet, person.scope(), midnight=midnight)
        now = fleet.store.now()
    if as_json:
        click.echo(encode_printable(found.view(), 2))
        return
    width = tables.screen() or WIDEST
    for line in _lines(found, now, width):
        click.echo(line)
    if not (found.needs or found.working or found.done or found.ahead.ready):
        click.echo("nothing to do; `fleet create BRANCH -p PROMPT` starts an agent", err=True)
    if not is_agents(home.root):
        note_look(home, now)
        shown = {key for each in _rest(found.needs)[:MOST] for key in each.tasks if can_answer(each)}
        note_seen(home, [each for key, each in found.dialogs.items() if key in shown])


def _lines(found: Overview, now: datetime, width: int) -> Iterator[str]:
    names = [each.name for each in found.needs] + [row.name for row in (*found.working, *found.done)]
    page = Page(width, names)
    since = "in the last 24 hours" if now - found.since >= LONGEST else f"since {_moment(found.since)}"
    sections = (
        ("Needs you", _needs(page, found.needs, now)),
        (f"Working  {len(found.working)}", _working(page, found.working)),
        (f"Done {since}", _done(page, found.done)),
    )
    for head, rows in sections:
        lines = list(rows)
        if lines:
            yield _styled(head, bold=True)
            yield from lines
            yield ""
    yield from _totals(found, width)


class Page:
    """The layout of rows: marks and names are aligned, and the last cells end at the width."""

    def __init__(self, width: int, names: Iterable[str]) -> None:
        self.width = width
        fitting = [wide for name in names if (wide := tables.text_width(clean(name))) <= NAME_WIDTH]
        self._names = max(fitting, default=0)

    def row(self, mark: tuple[str, str], name: str, title: str, what: str, end: str = "") -> Iterator[str]:
        """Yield a row: name and `end` whole, `what` in up to half of the room between, and the title in the rest."""
        (sign, color), name = mark, clean(name)
        begin = _styled(sign, fg=color)
        if tables.text_width(name) > self._names:
            yield f"{begin} {_styled(name, bold=True)}"
            begin, name = " ", ""
        begin += f" {_styled(name, bold=True)}{' ' * (self._names - tables.text_width(name))}{GAP}"
        room = self.width - 2 - self._names - len(GAP) - (tables.text_width(end) + len(GAP) if end else 0)
        what = fit(clean(what), max(room // 2, LEAST)) if title else fit(clean(what), room)
        room -= tables.text_width(what) + len(GAP) if what and title else tables.text_width(what)
        title = fit(clean(title), room)
        middle = f"{title}{' ' * (room - tables.text_width(title))}{GAP if what and title else ''}{what}"
        yield f"{begin}{middle}{GAP}{end}".rstrip() if end else f"{begin}{middle}".rstrip()

    def block(self, *texts: str) -> Iterator[str]:
        """Yield texts whole, each on its own lines."""
        for text in texts:
            for line in _wrapped(clean(text), self.width - len(INDENT)):
                yield f"{INDENT}{line}"

    def below(self, what: str, commands: Sequence[str]) -> Iterator[str]:
        """Yield what happened, cut to the width, and the commands to type, whole, on as few lines as possible."""
        lines = [fit(clean(what), self.width - len(INDENT))] if what else []
        for command in map(clean, commands):
            joined = f"{lines[-1]} · {command}" if lines else ""
            if joined and tables.text_width(INDENT + joined) <= self.width:
                lines[-1] = joined
            else:
                lines.append(command)
        yield from (f"{INDENT}{line}" for line in lines)


def _rest(needs: list[AttentionItem]) -> list[AttentionItem]:
    """Return the items that have their own rows. Several merges share one."""
    merges = [each for each in needs if each.kind == AttentionKind.MERGE]
    return [each for each in needs if each.kind != AttentionKind.MERGE or len(merges) == 1]


def _needs(page: Page, needs: list[AttentionItem], now: datetime) -> Iterator[str]:
    merges = [each for each in needs if each.kind == AttentionKind.MERGE]
    rest = _rest(needs)
    for each in rest[:MOST]:
        mark, age = NEEDS.get(each.kind, FAULT), _brief((now - each.since).total_seconds()) if each.since else ""
        yield from page.row(mark, each.name, each.title or _sentence(each.what), "", age)
        told = _sentence(each.what) if each.title else ""
        if each.options:
            told = each.what if can_answer(each) else fit(clean(told), page.width - len(INDENT))
            yield from page.block(told, *(f"{number}. {text}" for number, text in enumerate(each.options, 1)))
            told = ""
        yield from page.below(told, each.commands)
    if len(rest) > MOST:
        yield f"{INDENT}{len(rest) - MOST} more · fleet status --json"
    if len(merges) > 1:
        yield from page.row(NEEDS[AttentionKind.MERGE], f"{len(merges)} branches", "Verified, not merged", "")
        yield from _merge_command(merges[:MOST], page.width)
    if len(merges) > MOST:
        yield f"{INDENT}{len(merges) - MOST} more · fleet status --json"


def _merge_command(merges: Sequence[AttentionItem], width: int) -> Iterator[str]:
    """Yield one command that merges all of these, on lines that a shell joins."""
    line, is_first = f"{INDENT}fleet merge", True
    for word in (clean(each.commands[0].removeprefix("fleet merge ")) for each in merges):
        if not is_first and tables.text_width(f"{line} {word} \\") > width:
            yield f"{line} \\"
            line = f"{INDENT}   "
        line, is_first = f"{line} {word}", False
    yield line


def _working(page: Page, rows: list[AgentRow]) -> Iterator[str]:
    for row in rows[:MOST]:
        word = row.derived.result
        what = _doing(row) if word == TaskPhase.WORKING else word
        yield from page.row(
            WORKS.get(word, CALM), row.name, row.task.title, what, _end(_brief(row.runtime_seconds), row)
        )
        if word == TaskPhase.IDLE:
            yield from page.below("", (f"fleet attach {row.task.id}", f"fleet done {row.task.id}"))
    if len(rows) > MOST:
        yield f"{INDENT}{len(rows) - MOST} more · fleet list · fleet tasks"


def _doing(row: AgentRow) -> str:
    """Return the last words of a working agent, or the number of its tool calls."""
    run = row.run
    said = str(run.notes.get("text", "")).strip() if run else ""
    if said:
        return said.splitlines()[0]
    return f"{run.tool_calls} tool calls" if run and run.tool_calls else TaskPhase.WORKING


def _done(page: Page, rows: list[AgentRow]) -> Iterator[str]:
    for row in rows[:MOST]:
        run, found = row.run, row.derived
        size = f"+{run.diff_added or 0} -{run.diff_removed or 0}" if run is not None and run.diff_files else ""
        mark = RESULTS.get(found.result, FAULT)
        yield from page.row(mark, row.name, row.task.title, _sentence(found.result), _end(size, row, 10))
        if mark == FAULT or found.result == ResultWord.UNCHANGED:
            yield from page.below("", (f"fleet receipt {row.task.id}",))
    if len(rows) > MOST:
        yield f"{INDENT}{len(rows) - MOST} more · fleet list --all"


def _end(cell: str, row: AgentRow, width: int = 6) -> str:
    """Return the last cells of a row: this cell, and the cost."""
    spent = _spent(row.spent.cost_usd, row.spent.cost_basis) if row.spent else NOTHING
    return f"{cell:>{width}}{GAP}{spent:>6}"


def _spent(dollars: float | None, basis: str) -> str:
    """Return a cost such as $0.42: rounded to cents, unless it is less than one cent."""
    text = cost(dollars, basis)
    return text if dollars is None or dollars < 0.01 else text.replace(money(dollars), f"${dollars:.2f}")


def fit(text: str, width: int) -> str:
    """Return the text within this width, with an ellipsis if it was cut."""
    if tables.text_width(text) <= width:
        return text
    while text and tables.text_width(text) > width - 1:
        text = text[:-1]
    return f"{text.rstrip()}…" if width > 0 else ""


def _totals(found: Overview, width: int) -> Iterator[str]:
    today, ahead = found.today, found.ahead
    counts = ((found.running, "running"), (ahead.ready, "ready"))
    more = ((ahead.waiting, "waiting for others"), (ahead.later, "put off"), (ahead.blocked, "blocked"))
    some = [f"{number} {word}" for number, word in counts]
    some += [f"{number} {word}" for number, word in more if number]
    yield fit(" · ".join(some), width)
    spent = [_spent(today.cost_usd, today.cost_basis), f"{count(today.tokens)} tokens"]
    spent += [f"{today.verified} of {today.judged} verified"] if today.judged else []
    yield f"Today {' · '.join(spent)}"
    for cause in ahead.causes:
        head = "Some tasks wait" if cause.is_partial else f"Nothing {'more ' if found.running else ''}starts"
        yield from _wrapped(f"{head}: {clean(str(cause))}", width)


def _wrapped(text: str, width: int) -> Iterator[str]:
    line = ""
    for word in text.split(" "):
        if line and tables.text_width(f"{line} {word}") > width:
            yield line
            line = f"  {word}"
        else:
            line = f"{line} {word}" if line else word
    yield line


def _sentence(text: str) -> str:
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return first[:1].upper() + first[1:]


def _brief(seconds: float | None) -> str:
    """Return a duration such as 4s, 12m, 2h05m, without seconds after the first minute."""
    return duration(seconds) if seconds is None or seconds < 60 or seconds >= 3600 else f"{int(seconds) // 60}m"


def _moment(moment: datetime) -> str:
    told = instant(moment)
    return told[:5] if len(told) == len("HH:MM:SS") else told


def _styled(text: str, *, fg: str = "", bold: bool = False) -> str:
    has_style = tables.has_color() and text and (fg or bold)
    return click.style(text, fg=fg or None, bold=bold or None) if has_style else text
