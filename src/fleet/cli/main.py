"""The root of the command line: a table of commands, each imported only when it is called."""

from __future__ import annotations

import gc
import importlib
import os
import sys

import click

from fleet import __version__
from fleet.cli.errors import debugging
from fleet.core.errors import Usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from click.shell_completion import CompletionItem

# Each command's name, with its place and its text in `fleet --help`.
COMMANDS = {
    "init": ("fleet.cli.init:init", "make or mend the home of fleet; in a repository, also its project file"),
    "status": ("fleet.cli.status:status", "show what needs you, what works and what is done"),
    "create": ("fleet.cli.creating:create", "start an agent on a branch and in a worktree of its own"),
    "fanout": ("fleet.cli.creating:fanout", "start several agents on the same prompt"),
    "multi": ("fleet.cli.creating:multi", "start several agents, each on a prompt of its own"),
    "list": ("fleet.cli.listing:list_agents", "show the agents that have a branch of their own"),
    "attach": ("fleet.cli.looking:attach", "enter an agent's terminal, or follow one that has none"),
    "logs": ("fleet.cli.looking:logs", "show the last of an agent's terminal, or its events"),
    "diff": ("fleet.cli.looking:diff", "show what an agent has changed"),
    "conflicts": ("fleet.cli.conflicts:show_conflicts", "show whose branches collide, and in which files"),
    "pr": ("fleet.cli.requests:request", "push a branch and open a pull request, with the receipt as its text"),
    "merge": ("fleet.cli.merging:merge", "merge the work of tasks, verified together, into a branch"),
    "done": ("fleet.cli.stopping:done", "say that a task is done: its agent is ended, its work kept"),
    "config": ("fleet.cli.config:config", "show, change and check settings"),
    "trust": ("fleet.cli.trust:trust", "allow what a repository would have fleet run"),
    "bd": ("fleet.cli.bd:main", "the queue, in bd's own words: create, list, ready, close …"),
    "run": ("fleet.cli.run:run", "run the supervisor: claim tasks, start agents"),
    "ready": ("fleet.cli.tasks:ready", "list the tasks that can start now"),
    "show": ("fleet.cli.tasks:show", "show one task, with the coder and model it will get"),
    "tasks": ("fleet.cli.running:tasks", "show the tasks under way, and why no more of them are"),
    "task": ("fleet.cli.task:task", "print one task's log, plan, knowledge, events, questions, result, stderr"),
    "log": ("fleet.cli.task:log", "print the supervisor's log"),
    "receipt": ("fleet.cli.receipts:receipt", "show what fleet itself saw of a run, and what that amounts to"),
    "stats": ("fleet.cli.stats:stats", "show how much of each coder's work was proven, and what it took"),
    "pick": ("fleet.cli.picking:pick", "verify and rank what several agents made of one task; merge the best"),
    "compare": ("fleet.cli.picking:compare", "show two branches side by side, and how they differ"),
    "runs": ("fleet.cli.runs:runs", "show every run of a task, or two side by side"),
    "questions": ("fleet.cli.questions:questions", "list what agents ask"),
    "answer": ("fleet.cli.questions:answer", "answer a question; its task goes on"),
    "prompt": ("fleet.cli.steering:prompt", "tell an agent something, while it works or for its next run"),
    "interrupt": ("fleet.cli.steering:interrupt", "have an agent stop what it does"),
    "kill": ("fleet.cli.killing:kill", "stop tasks and their agents; save and remove their worktrees"),
    "retry": ("fleet.cli.stopping:retry", "open blocked or closed tasks again"),
    "pause": ("fleet.cli.stopping:pause", "start no more agents for now"),
    "resume": ("fleet.cli.stopping:resume", "start agents again"),
    "wait": ("fleet.cli.stopping:wait", "wait until tasks are over"),
    "workflow": ("fleet.cli.workflow:workflow", "agents that work together: write, check, run and follow workflows"),
    "mcp": ("fleet.cli.mcp:mcp", "serve fleet's tools to an agent, over stdin and stdout"),
    "accounts": ("fleet.cli.accounts:accounts", "show the accounts of coders: ready or parked, and what they took"),
    "queue": ("fleet.cli.queue:queue", "show where tasks are kept, and move them elsewhere"),
    "hosts": ("fleet.cli.hosts:hosts", "show the machines that share this queue; drain one, or take it back"),
    "coders": ("fleet.cli.coders:coders", "show the coders: installed, logged in, and what each can do"),
    "doctor": ("fleet.cli.doctor:doctor", "find what is wrong, each with its remedy"),
    "gc": ("fleet.cli.gc:gc", "remove the raw output of runs that ended long ago"),
    "backup": ("fleet.cli.backup:backup", "write the database, settings, tasks and unmerged work to one file"),
    "restore": ("fleet.cli.backup:restore", "restore what `fleet backup` wrote; nothing on disk is lost"),
    "demo": ("fleet.cli.demo:demo", "see it all work, in a home of its own"),
    "update": ("fleet.cli.update:update", "bring fleet itself up to date"),
    "completion": ("fleet.cli.completion:completion", "print the script that completes command lines in a shell"),
}
#: Other names for commands.
ALIASES = {"ls": "list", "ps": "list", "l": "list", "new": "create", "rm": "kill", "send": "prompt"}


class Root(click.Group):
    """A group that knows its commands from the table, without imports."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = ALIASES.get(cmd_name, cmd_name)
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        found = getattr(importlib.import_module(module), name)
        gc.freeze()
        gc.enable()
        return found if isinstance(found, click.Command) else _plain(cmd_name, found)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve as click does, but suggest the nearest command if none has this name."""
        if args and args[0] not in COMMANDS and args[0] not in ALIASES and not args[0].startswith("-"):
            raise Usage(f"no such command {args[0]!r}", hint=_nearest(args[0]))
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offer the commands from the table and fleet's own options, without importing any command."""
        from click.shell_completion import CompletionItem

        fitting = [
            CompletionItem(name, help=text) for name, (_, text) in COMMANDS.items() if name.startswith(incomplete)
        ]
        return [*fitting, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=Root, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="fleet %(version)s")
@click.pass_context
def root(context: click.Context) -> None:
    """Run a fleet of coding agents through one durable queue. Without a command: `fleet status`."""
    if context.invoked_subcommand is not None:
        return
    from fleet.home import find

    command = root.get_command(context, "status") if find().exists else None
    if command is None:
        click.echo(context.get_help())
    else:
        context.invoke(command)


def call(args: list[str], name: str = "fleet") -> int:
    """Run one command line. Raise click's errors as FleetErrors, so that all errors are printed in one way."""
    if asked := os.environ.get("_FLEET_COMPLETE"):
        from fleet.cli.completion import answer

        return answer(root, asked)
    if debugging():
        import logging

        logging.basicConfig(stream=sys.stderr, level=logging.DEBUG, format="debug: %(message)s")
    try:
        # `root.main` is not used because it handles broken pipes differently.
        with root.make_context(name, list(args)) as context:
            code = root.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.Abort as abort:
        raise KeyboardInterrupt from abort
    except click.UsageError as error:
        at = error.ctx.command_path if error.ctx else name
        message = error.format_message().rstrip(".")
        raise Usage(f"{message[:1].lower()}{message[1:]}", hint=f"`{at} --help` shows how it is used.") from error
    except click.ClickException as error:
        raise Usage(error.format_message()) from error
    return code if isinstance(code, int) else 0


def _plain(name: str, function: Any) -> click.Command:
    """Return a command with its own parser: the function gets all words and returns the exit code."""
    from fleet.cli.completion import complete_bd

    words = click.Argument(["words"], nargs=-1, type=click.UNPROCESSED, shell_complete=complete_bd)
    return click.Command(
        name,
        params=[words],
        callback=lambda words: function(list(words)),
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )


def _nearest(word: str) -> str:
    import difflib

    close = difflib.get_close_matches(word, COMMANDS, n=1)
    return f"did you mean `fleet {close[0]}`?" if close else "`fleet --help` lists the commands."
