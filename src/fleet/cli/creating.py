"""`fleet create`, `fanout` and `multi`: agents on branches of their own."""

import sys
from collections.abc import Callable
from typing import Any

import click

from fleet.actions import control, creating, homes, ruling
from fleet.actions.creating import Maker, Terms, Wish
from fleet.actions.starting_up import Start, State, watch
from fleet.assembly import open_fleet
from fleet.cli import person
from fleet.cli.bd.session import read_source
from fleet.cli.bd.text import clean
from fleet.cli.completion import complete_coders
from fleet.core import host_words
from fleet.core.errors import Usage
from fleet.core.jsontext import encode_printable
from fleet.core.task import CREATE, FANOUT, MULTI
from fleet.home import find

#: As long as setup commands may reasonably take; what goes on after that goes on without us.
SECONDS = 900.0

with_prompt = click.option("-p", "--prompt", metavar="PROMPT", help="What the agent is to do; - reads it from stdin.")
with_file = click.option("--prompt-file", metavar="FILE", help="Read what it is to do from a file.")


def with_terms(command: Callable[..., int]) -> Callable[..., int]:
    """The options that all three commands have; they come as `given`."""
    options = (
        click.option("-a", "--agent", "coder", default="", shell_complete=complete_coders, help="Which coder works."),
        click.option("-m", "--model", default="", help="The model it is told to use."),
        click.option("--base", default="", metavar="REF", help="What the branch starts from; HEAD unless said."),
        click.option("--quick", is_flag=True, help="Skip the setup commands of the project."),
        click.option("--headless", is_flag=True, help="Run without a terminal."),
        click.option("--verify", default="", metavar="CMD", help="Run this on the result, in a clean checkout."),
        click.option("--allow", multiple=True, metavar="GLOB", help="It may change these files only; may be repeated."),
        click.option("--protect", multiple=True, metavar="GLOB", help="It must not change these; may be repeated."),
        click.option("--fail-to-pass", is_flag=True, help="The verify command must fail at the base."),
        click.option("--allow-no-changes", is_flag=True, help="It may end without a change."),
        click.option("--requires", multiple=True, metavar="LABEL", help="Only on a host with it; may be repeated."),
        click.option("--host", default="", metavar="NAME", help="Only on this host."),
        click.option("--no-wait", is_flag=True, help="Do not wait until the agents run."),
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@click.argument("branch")
@click.argument("more", metavar="[-]", nargs=-1)
@with_prompt
@with_file
@with_terms
def create(branch: str, more: tuple[str, ...], prompt: str | None, prompt_file: str | None, **given: Any) -> int:
    """Start an agent on BRANCH, in a worktree of its own: in a terminal that `fleet attach` shows, or headless.

    Without a prompt its terminal waits for you. A branch that is there and checked out nowhere is gone on with.
    """
    if more not in ((), ("-",)):
        raise Usage(
            f"{more[0]!r} is a word too many after the branch",
            hint='a prompt is one word after its option, -p "Fix the login"; options stand before `--`.',
        )
    text = _prompt("-" if more else prompt, prompt_file)
    wish = Wish(branch=branch, prompt=text, coder=given["coder"], model=given["model"])
    return _make([wish], given, CREATE)


@click.command()
@click.argument("words", metavar="[COUNT] [PREFIX]", nargs=-1)
@with_prompt
@with_file
@click.option("--agents", default="", metavar="CODER:N,…", help="Spread the prompt over coders: claude:2,codex:1.")
@with_terms
def fanout(words: tuple[str, ...], prompt: str | None, prompt_file: str | None, agents: str, **given: Any) -> int:
    """Start COUNT agents on the same prompt, on branches PREFIX-A1, PREFIX-A2 … With --agents COUNT can be left out."""
    count, prefix = _count_and_prefix(words, agents)
    text = _prompt(prompt, prompt_file)
    if not text:
        raise Usage("a fanout needs a prompt", hint="say what to do: -p PROMPT.")
    return _make(creating.fanout(count, prefix, text, agents, given["coder"], given["model"]), given, FANOUT)


@click.command()
@click.argument("pairs", metavar="BRANCH:PROMPT…", nargs=-1)
@click.option("--file", "path", metavar="FILE", help="Read the pairs from a file, one in a line; - is stdin.")
@with_terms
def multi(pairs: tuple[str, ...], path: str | None, **given: Any) -> int:
    """Start several agents, each on a branch and a prompt of its own."""
    texts = [*pairs, *(_lines(path) if path else ())]
    if not texts:
        raise Usage("nothing to start", hint='write BRANCH:PROMPT, like fix-auth:"Fix the login bug".')
    return _make(creating.multi(texts, given["coder"], given["model"]), given, MULTI)


def _count_and_prefix(words: tuple[str, ...], agents: str) -> tuple[int, str]:
    count, *rest = words if words and words[0].isdecimal() else ("", *words)
    if len(rest) > 1:
        raise Usage(f"{rest[1]!r} is a word too many", hint="write COUNT PREFIX; a prompt stands after -p.")
    if not count and not agents:
        said = f"{rest[0]!r} is not a number of agents" if rest else "a fanout needs a number of agents"
        raise Usage(said, hint="write fanout 3 jwt, or spread it: --agents claude:2,codex:1.")
    return int(count[:9] or 0), "".join(rest)


def _prompt(given: str | None, path: str | None) -> str:
    if given is not None and path is not None:
        raise Usage("both a prompt and a file with one", hint="give one of -p and --prompt-file.")
    if given == "-":
        return read_source("-").strip()
    return (read_source(path) if path else given or "").strip()


def _lines(path: str) -> list[str]:
    lines = [line.strip() for line in read_source(path).splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def _make(wishes: list[Wish], given: dict[str, Any], origin: str) -> int:
    home, directory = find(), person.current_directory()
    rules = ruling.rules(
        allow=given["allow"],
        protect=given["protect"],
        fail_to_pass=given["fail_to_pass"] or None,
        no_changes=given["allow_no_changes"] or None,
    )
    requires = host_words.wanted(given["requires"], given["host"])
    plain = {name: given[name] for name in ("base", "quick", "headless", "verify")}
    terms = Terms(**plain, rules=rules.text(), requires=requires)
    creating.check_names(wishes)
    if homes.ensure(home):
        click.echo(f"fleet home initialized at {home.root}", err=True)
    with open_fleet(home) as fleet:
        caller = Maker(origin=origin, by=person.name(), caller=person.caller(fleet))
        made = creating.create(fleet, directory, wishes, terms, caller)
        for note in made.notes:
            click.echo(clean(note), err=True)
        if started := control.ensure(home):
            click.echo(f"supervisor started: pid {started}; it runs what is made this way", err=True)
        show = Progress(quiet=given["as_json"])
        seconds = 0 if given["no_wait"] else SECONDS
        ids = [task.id for task in made.tasks]
        starts = watch(fleet, ids, seconds=seconds, tell=show.tell, lacking=made.lacking)
    show.end()
    _tell(starts, made.batch, alone=origin == CREATE, as_json=given["as_json"])
    return 1 if any(start.state == State.FAILED for start in starts) else 0


def _tell(starts: list[Start], batch: str, *, alone: bool, as_json: bool) -> None:
    if as_json:
        views = [start.view() for start in starts]
        click.echo(encode_printable(views[0] if alone else views, 2))
        return
    for start in starts:
        click.echo(_line(start))
    if len(starts) > 1:
        click.echo(f"batch {batch}: `fleet list --grouped`, `fleet kill --batch {batch}`")


def _line(start: Start) -> str:
    task, run = start.task, start.run
    coder = (run.coder if run else task.coder) or "its coder"
    match start.state:
        case State.RUNNING | State.ENDED if run and run.session_name:
            words = f"{coder} runs in a terminal: `fleet attach {task.branch}`"
        case State.RUNNING | State.ENDED:
            words = f"{coder} runs: `fleet logs -f {task.branch}`"
        case State.FAILED:
            words = f"not started: {clean(task.reason)}"
        case State.SETTING_UP:
            words = "is being set up"
        case State.WAITING if start.lacks:
            words = f"waits until it can run: {clean(start.lacks)}"
        case _:
            words = "waits for its turn: `fleet tasks` says why"
    return f"{task.branch} ({task.id}): {words}"


class Progress:
    """On a terminal, a line that counts while agents are being started."""

    def __init__(self, *, quiet: bool) -> None:
        self._on = not quiet and sys.stderr.isatty()
        self._line = ""

    def tell(self, starts: list[Start]) -> None:
        """Take in one look."""
        words = [State.WAITING, State.SETTING_UP, State.RUNNING, State.ENDED, State.FAILED]
        counts = ((sum(start.state == word for start in starts), word) for word in words)
        line = ", ".join(f"{number} {word}" for number, word in counts if number)
        if self._on and line != self._line:
            click.echo(f"\r\x1b[K{line}", nl=False, err=True)
            self._line = line

    def end(self) -> None:
        """Take the line away."""
        if self._line:
            click.echo("\r\x1b[K", nl=False, err=True)
