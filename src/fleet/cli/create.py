"""`fleet create`, `fanout` and `multi`: start agents on their own branches."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from fleet.actions.control.supervisor import start_early
from fleet.cli import lazy_click as click
from fleet.cli.bd.session import read_source
from fleet.core.errors import UsageError
from fleet.core.task import CREATE, FANOUT, MULTI
from fleet.home import find

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from fleet.actions.control.supervisor import StartingSupervisor

with_prompt = click.option("-p", "--prompt", metavar="PROMPT", help="Give the agent PROMPT; - reads it from stdin.")
with_file = click.option("--prompt-file", metavar="FILE", help="Read the prompt from FILE.")


def with_terms(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options that all three commands share. Their values are passed as `given`."""
    options = (
        click.option(
            *("-c", "--coder"),
            former=("-a", "--agent"),
            default="",
            metavar="CODER",
            shell_complete="complete_coders",
            help="Use CODER. [default: the `coder` setting]",
        ),
        click.option("-m", "--model", default="", metavar="MODEL", help="Tell the coder to use MODEL."),
        click.option(
            "--base",
            default="",
            metavar="REF",
            shell_complete="complete_refs",
            help="Start the branch from REF. [default: HEAD]",
        ),
        click.option("--quick", is_flag=True, help="Skip the project's setup commands."),
        click.option("--headless", is_flag=True, help="Run without a terminal. [default: set by agent.mode]"),
        click.option("--verify", default="", metavar="CMD", help="Verify the result with CMD, in a clean checkout."),
        click.option(
            "--allow", multiple=True, metavar="GLOB", help="Allow changes only to files that match GLOB; repeatable."
        ),
        click.option(
            "--protect", multiple=True, metavar="GLOB", help="Forbid changes to files that match GLOB; repeatable."
        ),
        click.option("--fail-to-pass", is_flag=True, help="Require the verify command to fail at the base."),
        click.option("--allow-no-changes", is_flag=True, help="Accept a result without changes."),
        click.option("--requires", multiple=True, metavar="LABEL", help="Run only on a host with LABEL; repeatable."),
        click.option("--host", default="", metavar="NAME", help="Run only on host NAME."),
        click.option("--no-wait", is_flag=True, help="Do not wait for the agents to start."),
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
    """Start an agent on BRANCH, in its own worktree.

    The agent runs in a terminal that `fleet attach` opens, or headless. Without a prompt, its terminal waits for you.
    If BRANCH exists and is not checked out, the agent continues on it.
    """
    if more not in ((), ("-",)):
        raise UsageError(
            f"{more[0]!r} is an extra argument after the branch",
            hint='quote the prompt: -p "Fix the login"; put options before `--`',
        )
    text = _prompt("-" if more else prompt, prompt_file)
    with starting_supervisor() as begun:
        from fleet.cli.create_agents import AgentRequest, make_agents

        wish = AgentRequest(branch=branch, prompt=text, coder=given["coder"], model=given["model"])
        return make_agents([wish], given, CREATE, begun)


@click.command()
@click.argument("words", metavar="[COUNT] [PREFIX]", nargs=-1)
@with_prompt
@with_file
@click.option(
    "--agents", default="", metavar="CODER:N,…", help="Start N agents with each CODER, such as claude:2,codex:1."
)
@with_terms
def fanout(words: tuple[str, ...], prompt: str | None, prompt_file: str | None, agents: str, **given: Any) -> int:
    """Start COUNT agents on the same prompt, on branches PREFIX-A1, PREFIX-A2 and so on.

    With --agents, you can omit COUNT.
    """
    count, prefix = _count_and_prefix(words, agents)
    text = _prompt(prompt, prompt_file)
    if not text:
        raise UsageError("a fanout needs a prompt", hint="pass a prompt: -p PROMPT")
    with starting_supervisor() as begun:
        from fleet.cli import create_agents

        wishes = create_agents.create.fanout(count, prefix, text, agents, given["coder"], given["model"])
        return create_agents.make_agents(wishes, given, FANOUT, begun)


@click.command()
@click.argument("pairs", metavar="BRANCH:PROMPT…", nargs=-1)
@click.option("--file", "path", metavar="FILE", help="Read the pairs from FILE, one per line; - reads stdin.")
@with_terms
def multi(pairs: tuple[str, ...], path: str | None, **given: Any) -> int:
    """Start several agents, each on its own branch and prompt."""
    texts = [*pairs, *(_lines(path) if path else ())]
    if not texts:
        raise UsageError("nothing to start", hint='write BRANCH:PROMPT, like fix-auth:"Fix the login bug"')
    with starting_supervisor() as begun:
        from fleet.cli import create_agents

        return create_agents.make_agents(
            create_agents.create.multi(texts, given["coder"], given["model"]), given, MULTI, begun
        )


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
    if not count and not agents:
        said = f"{rest[0]!r} is not a number of agents" if rest else "a fanout needs a number of agents"
        raise UsageError(said, hint="write fanout 3 jwt, or pass --agents claude:2,codex:1")
    if len(rest) > 1:
        raise UsageError(f"{rest[1]!r} is an extra argument", hint="write COUNT PREFIX -p PROMPT")
    return int(count[:9] or 0), "".join(rest)


def _prompt(given: str | None, path: str | None) -> str:
    if given is not None and path is not None:
        raise UsageError("both a prompt and a file with one", hint="pass either -p or --prompt-file")
    if given == "-":
        return read_source("-").strip()
    return (read_source(path) if path else given or "").strip()


def _lines(path: str) -> list[str]:
    lines = [line.strip() for line in read_source(path).splitlines()]
    return [line for line in lines if line and not line.startswith("#")]
