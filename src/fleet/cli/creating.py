"""`fleet create`, `fanout` and `multi`: start agents on their own branches."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from fleet.actions.supervisor_start import start_early
from fleet.cli.bd.session import read_source
from fleet.cli.completion import complete_coders
from fleet.core.errors import Usage
from fleet.core.task import CREATE, FANOUT, MULTI
from fleet.home import find

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from fleet.actions.supervisor_start import StartingSupervisor

with_prompt = click.option("-p", "--prompt", metavar="PROMPT", help="What the agent is to do; - reads it from stdin.")
with_file = click.option("--prompt-file", metavar="FILE", help="Read what it is to do from a file.")


def with_terms(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options that all three commands share. Their values are passed as `given`."""
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
    with starting_supervisor() as begun:
        from fleet.cli.making import Wish, make_agents

        wish = Wish(branch=branch, prompt=text, coder=given["coder"], model=given["model"])
        return make_agents([wish], given, CREATE, begun)


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
    with starting_supervisor() as begun:
        from fleet.cli.making import creating, make_agents

        wishes = creating.fanout(count, prefix, text, agents, given["coder"], given["model"])
        return make_agents(wishes, given, FANOUT, begun)


@click.command()
@click.argument("pairs", metavar="BRANCH:PROMPT…", nargs=-1)
@click.option("--file", "path", metavar="FILE", help="Read the pairs from a file, one in a line; - is stdin.")
@with_terms
def multi(pairs: tuple[str, ...], path: str | None, **given: Any) -> int:
    """Start several agents, each on a branch and a prompt of its own."""
    texts = [*pairs, *(_lines(path) if path else ())]
    if not texts:
        raise Usage("nothing to start", hint='write BRANCH:PROMPT, like fix-auth:"Fix the login bug".')
    with starting_supervisor() as begun:
        from fleet.cli.making import creating, make_agents

        return make_agents(creating.multi(texts, given["coder"], given["model"]), given, MULTI, begun)


@contextmanager
def starting_supervisor() -> Iterator[StartingSupervisor | None]:
    """Start a supervisor if none runs, in parallel with the command's imports and checks. Stop it if these fail."""
    begun = start_early(find())
    try:
        yield begun
    except BaseException:
        if begun is not None:
            begun.cancel()
        raise


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
