"""Costs of runs whose coders report totals per run or per session, or are killed before they report."""

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fleet.coders.base import Coder
from fleet.coders.claude.adapter import ClaudeCoder
from fleet.coders.codex.adapter import CodexCoder
from fleet.coders.gemini import GeminiCoder
from fleet.core.event import Event, Kind, Usage
from fleet.core.run import Run
from fleet.home import Home
from fleet.settings import Settings, load
from fleet.settings.price_table import describe_table, rates, read_table_date
from fleet.settings.prices import dollars, price_of
from fleet.supervisor.run.costs import cost_of, costed, why_no_price
from fleet.supervisor.run.fold import fold, going_on

NOW = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
CLAUDE = ClaudeCoder()
MAIN, SMALL = "claude-sonnet-5", "claude-haiku-4-5-20251001"
SESSIONS_KEPT = Path(__file__).parents[3] / "recordings" / "sessions"
RECORDED = Path(__file__).parents[3] / "recordings" / "resumed"
#: The counts of one request in these streams: input, output, cache reads, cache writes.
COUNTS = (100, 30, 1000, 20)
FRESH, SUMS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"), 4


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load(Home(str(tmp_path)), env={})


def with_prices(tmp_path: Path, text: str) -> Settings:
    home = Home(str(tmp_path / "own"))
    home.make()
    Path(home.settings).write_text(text)
    return load(home, env={})


class Program:
    """A claude that reports totals of its process, or of the whole session with `on`. Both versions exist."""

    def __init__(self, *, on: bool) -> None:
        self.on = on
        self.session: dict[str, list[float]] = {}
        self._number = 0

    def run(self, *turns: tuple[str, ...], ends: bool = True) -> Iterator[list[Event]]:
        """Yield the events of turns, each with its models. The first model is the main one."""
        totals = {name: list(counts) for name, counts in self.session.items()} if self.on else {}
        yield CLAUDE.parse(json.dumps({"type": "system", "subtype": "init", "session_id": "s", "model": MAIN}))
        for turn in turns:
            for model in turn:
                self._number += 1
                yield from [self._message(model)] * 2  # each block of a message reports its usage
                kept = totals.setdefault(model, [0.0] * 5)
                kept[:] = [sum(pair) for pair in zip(kept, (*COUNTS, cost(model)), strict=True)]
            if ends:
                yield self._result(totals, turn)
        if ends:
            self.session = totals

    def _message(self, model: str) -> list[Event]:
        fresh, _, read, written = COUNTS
        usage = {
            **{"input_tokens": fresh, "output_tokens": 1},
            **{"cache_read_input_tokens": read, "cache_creation_input_tokens": written},
        }
        said = {"id": f"m{self._number}", "model": model, "content": [{"type": "text", "text": "."}], "usage": usage}
        beside = {"parent_tool_use_id": "toolu_1" if model == SMALL else None}
        return CLAUDE.parse(json.dumps({"type": "assistant", "message": said, **beside}))

    def _result(self, totals: dict[str, list[float]], turn: tuple[str, ...]) -> list[Event]:
        own = [model for model in turn if model != SMALL]
        usage = {"input_tokens": 100 * len(own), "cache_read_input_tokens": 1000 * len(own)}
        models = {
            model: dict(zip((*FRESH, "costUSD"), [*map(int, counts[:SUMS]), counts[SUMS]], strict=True))
            for model, counts in totals.items()
        }
        told = {"total_cost_usd": sum(counts[SUMS] for counts in totals.values()), "modelUsage": models}
        said = {"type": "result", "subtype": "success", "is_error": False, "result": "", "usage": usage, **told}
        return CLAUDE.parse(json.dumps(said))


def cost(model: str) -> float:
    """Return the cost of one request."""
    found = rates(model, 0, NOW.date())
    assert found is not None and found.cache_read is not None and found.cache_write is not None
    prices = (found.input, found.output, found.cache_read, found.cache_write)
    return sum(count * price for count, price in zip(COUNTS, prices, strict=True)) / 1e6


def a_run(last: Run | None, settings: Settings, *printed: list[Event], **changes: Any) -> Run:
    """Return the next run of a session, after this output of its coder."""
    run = Run(id="fleet-a/1", task_id="fleet-a", number=1, epoch=1, owner="host", started_at=NOW, **changes)
    run = going_on(run, last) if last else run
    for events in printed:
        run = costed(settings, fold(run, events, NOW))
    return run


class Resumed(NamedTuple):
    """One run of a session: its turns, and whether it lived to report them."""

    turns: tuple[tuple[str, ...], ...]
    ends: bool = True


ONE = Resumed(((MAIN, MAIN),))
SESSIONS = {
    "alike": [ONE] * 5,
    "two turns in one process": [ONE, Resumed(((MAIN,), (MAIN, MAIN))), ONE, Resumed(((MAIN,), (MAIN,), (MAIN,))), ONE],
    "sub-agents with another model": [ONE, Resumed(((MAIN, SMALL, SMALL, MAIN),)), Resumed(((MAIN, SMALL),)), ONE, ONE],
    "refused before a request": [ONE, Resumed(((),)), ONE, ONE, Resumed(((),))],
    "growing": [Resumed(((MAIN,) * number,)) for number in (1, 2, 4, 8, 16)],
    "shrinking": [Resumed(((MAIN,) * number,)) for number in (16, 8, 4, 2, 1)],
}


@pytest.mark.parametrize("on", [False, True], ids=["totals of the run", "totals of the session"])
@pytest.mark.parametrize("which", SESSIONS)
def test_five_resumed_runs_cost_as_much_as_five_separate_runs(settings: Settings, which: str, on: bool) -> None:
    program, last = Program(on=on), None
    for each in SESSIONS[which]:
        last = a_run(last, settings, *program.run(*each.turns))
        models = [model for turn in each.turns for model in turn]
        assert last.cost_usd == pytest.approx(sum(map(cost, models)))
        assert last.tokens == sum(COUNTS) * len(models)
        assert last.cost_basis == "reported"


@pytest.mark.parametrize("on", [False, True], ids=["totals of the run", "totals of the session"])
@pytest.mark.parametrize("keeps", [False, True], ids=["its part is lost", "its part is kept"])
def test_cost_of_a_killed_run_is_computed_and_not_charged_to_the_next(
    settings: Settings, on: bool, keeps: bool
) -> None:
    program = Program(on=on)
    first = a_run(None, settings, *program.run((MAIN,)))
    killed = a_run(first, settings, *program.run((MAIN, MAIN, MAIN), ends=False))
    if keeps and on:
        program.session = {MAIN: [*(4 * count for count in COUNTS), 4 * cost(MAIN)]}
    last = a_run(killed, settings, *program.run((MAIN, MAIN)))
    assert killed.cost_basis == f"computed:{read_table_date()}"
    assert (last.cost_basis, last.input_tokens) == ("reported", 200)
    # Only a result gives the output of a message. The output of a killed run arrives with the next total, if at all.
    assert first.cost_usd == pytest.approx(cost(MAIN))
    short = 3 * 29 * 10 / 1e6
    assert killed.cost_usd == pytest.approx(3 * cost(MAIN) - short)
    assert last.cost_usd == pytest.approx(2 * cost(MAIN) + (short if keeps and on else 0))


@pytest.mark.parametrize("on", [False, True], ids=["totals of the run", "totals of the session"])
def test_forked_session_pays_only_for_its_own_requests(settings: Settings, on: bool) -> None:
    program = Program(on=on)
    first = a_run(None, settings, *program.run((MAIN,)))
    kept = dict(program.session)
    fork = a_run(first, settings, *program.run((MAIN, MAIN)))
    later = a_run(fork, settings, *program.run((MAIN,)))
    program.session = kept
    beside = a_run(first, settings, *program.run((MAIN, MAIN, MAIN)))
    found = [run.cost_usd for run in (first, fork, later, beside)]
    assert found == pytest.approx([cost(MAIN) * number for number in (1, 2, 1, 3)])


def test_recorded_resumed_runs_cost_as_much_as_their_requests(settings: Settings) -> None:
    """The recordings are of claude 2.1.327, which continues its totals. One of the runs was killed."""
    last, found = None, {}
    for path in sorted(RECORDED.glob("*.jsonl")):
        last = a_run(last, settings, *(CLAUDE.parse(line) for line in path.read_text("utf-8").splitlines()))
        found[path.stem] = (round(last.cost_usd or 0, 6), last.tokens, last.cost_basis.partition(":")[0])
    assert found == {
        "1-fresh": (0.0015, 2300, "reported"),
        "2-resumed": (0.0015, 2300, "reported"),
        "3-killed": (0.00046, 1121, "computed"),
        "4-two-turns": (0.0015, 2300, "reported"),
        "5-forked": (0.0015, 2300, "reported"),
    }


def test_unreported_turn_is_computed_in_addition_to_reported_ones(settings: Settings) -> None:
    program = Program(on=True)
    printed = list(program.run((MAIN,), (MAIN,)))[:-1]
    run = a_run(None, settings, *printed)
    assert run.cost_basis == f"computed:{read_table_date()}"
    assert run.cost_usd == pytest.approx(2 * cost(MAIN) - 29 * 10 / 1e6)
    unknown = run.replace(model="", folded=run.folded.replace(MAIN, "nobody-knows"))
    found = cost_of(settings, unknown)
    assert found.usd == pytest.approx(cost(MAIN)) and found.basis == "unknown"


def used(model: str, *, size: int = 0, input: int = 0, output: int = 0) -> list[Event]:
    """Return the events of a request whose coder reports no cost."""
    named = Event(kind=Kind.USAGE, data={"model": model}) if model else Event(kind=Kind.USAGE)
    return [named, Event(kind=Kind.USAGE, usage=Usage(input=input, output=output), context=size or None)]


def test_costs_depend_on_model_and_size_and_user_prices_override(tmp_path: Path, settings: Settings) -> None:
    million = 1_000_000
    for model, size, expected in [
        ("gpt-5.5", 0, 5.0),
        ("gpt-5.5", 300_000, 10.0),
        ("claude-opus-4-8[1m]", 0, 5.0),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", 0, 3.0),
        ("google/gemini-3-pro-preview", 250_000, 4.0),
    ]:
        run = a_run(None, settings, used(model, size=size, input=million))
        assert (model, run.cost_usd, run.cost_basis) == (model, expected, f"computed:{read_table_date()}")
    for model in ("nobody-knows", ""):
        run = a_run(None, settings, used(model, input=5))
        assert (run.cost_usd, run.cost_basis) == (None, "unknown")
    both = a_run(None, settings, used("gpt-5.5", size=300_000, input=million), used("gpt-5.5", size=9, input=million))
    assert both.cost_usd == 15.0
    own = with_prices(tmp_path, '[prices."gpt-*"]\ninput = 1\noutput = 2\n[prices.fast]\ninput = 3\noutput = 3\n')
    run = a_run(None, own, used("gpt-5.5", input=million, output=million))
    assert (run.cost_usd, run.prices) == (3.0, "settings")
    assert a_run(None, own, used("gpt-5.5", input=million), model="fast").cost_usd == 3.0, "as the user named it"
    assert a_run(None, settings, used("claude-sonnet-5", input=million), model="sonnet").cost_usd == 2.0


@pytest.mark.parametrize("coder", [CLAUDE, CodexCoder(), GeminiCoder()], ids=["claude", "codex", "gemini"])
def test_cost_of_an_agent_in_a_terminal_is_computed_from_its_session_file(settings: Settings, coder: Coder) -> None:
    lines = (SESSIONS_KEPT / coder.name / "two-turns.jsonl").read_text("utf-8").splitlines()
    run = a_run(None, settings, *(list(coder.parse_session(line)) for line in lines))
    price = price_of(settings, [run.notes["model"]], NOW.date())
    assert price is not None and run.tokens
    counts = (run.input_tokens, run.output_tokens, run.cache_read_tokens, run.cache_write_tokens)
    assert run.cost_usd == pytest.approx(dollars(price.rates, *counts))
    assert (run.cost_basis, run.model) == (f"computed:{read_table_date()}", run.notes["model"])


def test_reported_cost_of_0_with_tokens_is_no_price(settings: Settings) -> None:
    free = Event(kind=Kind.USAGE, usage=Usage(input=7), cost_added=0.0)
    run = a_run(None, settings, [free])
    assert (run.cost_usd, run.cost_basis) == (None, "unknown")
    paid = Event(kind=Kind.USAGE, usage=Usage(input=7), cost_added=0.25)
    assert (a_run(None, settings, [paid, paid]).cost_usd, a_run(None, settings, [paid]).prices) == (0.5, "")
    refused = Event(kind=Kind.RESULT, ok=False, cost_usd=0.0)
    assert a_run(None, settings, [refused]).cost_usd == 0.0


@pytest.mark.parametrize(
    ("coder", "model", "interactive", "why"),
    [
        (CLAUDE, "nobody-knows", False, ""),  # it reports its cost
        (CLAUDE, "nobody-knows", True, "no price for nobody-knows"),
        (CLAUDE, "sonnet", True, ""),
        (CodexCoder(), "", False, ""),
        (CodexCoder(), "gpt-5.5", False, ""),
        (CodexCoder(), "mine", False, "no price for mine: set [prices] or use a token budget"),
    ],
)
def test_dollar_budget_is_refused_when_no_cost_is_known(
    settings: Settings, coder: Coder, model: str, interactive: bool, why: str
) -> None:
    found = why_no_price(settings, coder, model, NOW.date(), interactive=interactive)
    assert found.startswith(why) and bool(found) == bool(why)


def test_prices_apply_from_their_date_and_the_table_reports_its_age(settings: Settings) -> None:
    early, late = (rates("gemini-2.5-pro", 0, date(year, 1, 1)) for year in (2020, 2100))
    assert early is not None and late is not None
    assert price_of(settings, ["", "nobody-knows"], NOW.date()) is None
    day = read_table_date()
    assert describe_table(day).endswith(f"of {day}, 0 days old")
    assert "update fleet" not in describe_table(date.fromordinal(day.toordinal() + 179))
    assert "180 days old; update fleet" in describe_table(date.fromordinal(day.toordinal() + 180))


def test_hostile_numbers_of_models_do_not_grow_a_run(settings: Settings) -> None:
    many = [
        Event(kind=Kind.USAGE, usage=Usage(input=1, model=f"m{number}", message=f"{number}"), context=None)
        for number in range(1000)
    ]
    assert len(a_run(None, settings, many).folded) < 4_000
