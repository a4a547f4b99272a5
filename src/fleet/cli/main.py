"""The root of the command line: a table of commands, each imported only when it is called."""

from __future__ import annotations

import gc
import importlib
import os
import sys

import click

from fleet import __version__
from fleet.cli.errors import debugging, trace_programs
from fleet.cli.lazy_click import LazyCommand
from fleet.core.errors import UsageError, closest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from click.shell_completion import CompletionItem

# The groups of `fleet --help`: each command's name, with its place and its text.
GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Daily": {
        "create": ("fleet.cli.create:create", "Start an agent on its own branch and worktree"),
        "fanout": ("fleet.cli.create:fanout", "Start several agents on the same prompt"),
        "status": ("fleet.cli.status:status", "Show what needs you, what is running and what is done"),
        "list": ("fleet.cli.list_agents:list_agents", "List agents that have their own branch"),
        "attach": ("fleet.cli.views:attach", "Open an agent's terminal or follow its events"),
        "diff": ("fleet.cli.views:diff", "Show what an agent has changed"),
        "prompt": ("fleet.cli.messages:prompt", "Send a message to an agent, now or for its next run"),
        "answer": ("fleet.cli.questions:answer", "Answer an agent's question and continue its task"),
        "merge": ("fleet.cli.merge:merge", "Verify the work of tasks together and merge it"),
        "stop": ("fleet.cli.kill:stop", "Stop agents and keep their worktrees"),
    },
    "Start agents": {
        "multi": ("fleet.cli.create:multi", "Start several agents, each on its own prompt"),
        "workflow": ("fleet.cli.workflow:workflow", "Write, check, run and follow workflows of agents"),
    },
    "Watch": {
        "logs": ("fleet.cli.views:logs", "Show the end of an agent's terminal or its events"),
        "questions": ("fleet.cli.questions:questions", "List questions from agents"),
        "tasks": ("fleet.cli.running_tasks:tasks", "Show running tasks and why others are waiting"),
        "show": ("fleet.cli.tasks:show", "Show a task with its coder and model"),
        "wait": ("fleet.cli.task_control:wait", "Wait until tasks finish"),
        "runs": ("fleet.cli.runs:runs", "List a task's runs, or compare two side by side"),
        "task": ("fleet.cli.task_record:task", "Print a task's log, plan, events, result or others"),
    },
    "Steer": {
        "interrupt": ("fleet.cli.messages:interrupt", "Interrupt an agent"),
        "retry": ("fleet.cli.task_control:retry", "Reopen blocked or closed tasks"),
        "kill": ("fleet.cli.kill:kill", "Stop tasks, then save and remove their worktrees"),
        "done": ("fleet.cli.task_control:done", "Close tasks: end their agents and keep their work"),
    },
    "Review and merge": {
        "receipt": ("fleet.cli.proof:receipt", "Show what fleet found out about a run, with evidence"),
        "verify": ("fleet.cli.proof:verify", "Verify existing work again, with a new receipt"),
        "pick": ("fleet.cli.pick:pick", "Verify and rank several results of a task"),
        "compare": ("fleet.cli.pick:compare", "Compare two branches side by side"),
        "conflicts": ("fleet.cli.merge:show_conflicts", "Show which branches conflict, and in which files"),
        "pr": ("fleet.cli.merge:request", "Push a branch and open a pull request"),
        "cost": ("fleet.cli.proof:show_cost", "Show what agents have cost today and before"),
        "stats": ("fleet.cli.proof:stats", "Show the proven work of each coder, and its cost"),
    },
    "Queue": {
        "ready": ("fleet.cli.tasks:ready", "List tasks that can start now"),
        "bd": ("fleet.cli.bd:main", "Manage the queue with bd's commands: create, list …"),
        "queue": ("fleet.cli.queue:queue", "Show where tasks are stored, or move them"),
    },
    "Supervisor and hosts": {
        "supervisor": ("fleet.cli.supervisor:supervisor", "Start, stop and watch the supervisor"),
        "run": ("fleet.cli.run:run", "Run the supervisor: claim tasks and start agents"),
        "pause": ("fleet.cli.task_control:pause", "Stop starting agents"),
        "resume": ("fleet.cli.task_control:resume", "Resume starting agents"),
        "log": ("fleet.cli.supervisor:log", "Print the supervisor's log"),
        "hosts": ("fleet.cli.queue:hosts", "Show, drain and restore hosts that share this queue"),
        "accounts": ("fleet.cli.accounts:accounts", "Show coder accounts, their state and their usage"),
        "gc": ("fleet.cli.maintenance:gc", "Remove old run output, merged worktrees and saved work"),
        "backup": ("fleet.cli.maintenance:backup", "Back up database, settings, tasks and unmerged work"),
        "restore": ("fleet.cli.maintenance:restore", "Restore a backup without losing existing files"),
    },
    "Set up": {
        "init": ("fleet.cli.init:init", "Create or repair the home, or set up a project"),
        "config": ("fleet.cli.config:config", "Show, change and check settings"),
        "trust": ("fleet.cli.trust:trust", "Allow fleet to run a repository's commands and hooks"),
        "doctor": ("fleet.cli.maintenance:doctor", "Diagnose problems and suggest fixes"),
        "coders": ("fleet.cli.coders:coders", "Show which coders are installed and what each can do"),
        "mcp": ("fleet.cli.mcp:mcp", "Serve fleet's tools to an agent over stdin and stdout"),
        "completion": ("fleet.cli.completion:completion", "Print a shell completion script"),
        "demo": ("fleet.cli.demo:demo", "Run a demonstration in a separate home"),
        "update": ("fleet.cli.maintenance:update", "Update fleet"),
        "help": ("fleet.cli.help:help_command", "Explain a command, or a topic such as results"),
        "version": ("fleet.cli.help:version", "Print the version of fleet"),
    },
}
COMMANDS = {name: row for group in GROUPS.values() for name, row in group.items()}
#: Other names for commands.
ALIASES = {
    "ls": "list",
    "ps": "list",
    "l": "list",
    "new": "create",
    "rm": "kill",
    "send": "prompt",
    "finish": "done",
}


class CommandContext(click.Context):
    """The context of a command, whose help ends with examples."""

    def get_help(self) -> str:
        from fleet.cli.examples import write_examples

        context: click.Context = self
        words: list[str] = []
        while context.parent is not None:  # `command_path` has the alias that was typed
            words.insert(0, context.command.name or "")
            context = context.parent
        return f"{super().get_help()}\n\n{write_examples(' '.join(words))}".rstrip()


class Root(click.Group):
    """A group that knows its commands from the table, without imports."""

    context_class = CommandContext

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = ALIASES.get(cmd_name, cmd_name)
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        found = getattr(importlib.import_module(module), name)
        found = found.as_click() if isinstance(found, LazyCommand) else found
        gc.freeze()
        gc.enable()
        return _with_examples(found) if isinstance(found, click.Command) else _plain(cmd_name, found)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve as click does, but suggest the nearest command if none has this name."""
        if args and args[0] not in COMMANDS and args[0] not in ALIASES and not args[0].startswith("-"):
            raise UsageError(f"no such command {args[0]!r}", hint=_nearest(args[0]))
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
        for group, rows in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(f"{name:<{WIDEST}}", text) for name, (_, text) in rows.items()])
        with formatter.section("Other names"):
            for word in dict.fromkeys(ALIASES.values()):
                names = ", ".join(alias for alias, meant in ALIASES.items() if meant == word)
                formatter.write_dl([(f"{names:<{WIDEST}}", f"Same as {word}")])


#: The width of the column of names.
WIDEST = max(map(len, COMMANDS))


@click.group(cls=Root, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="fleet %(version)s")
@click.pass_context
def root(context: click.Context) -> None:
    """Run a fleet of coding agents through one durable queue. Without a command, run `fleet status`."""
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

        from fleet.home import find

        logging.basicConfig(stream=sys.stderr, level=logging.DEBUG, format="debug: %(message)s")
        where = f"home {find().root}, python {sys.version.split()[0]} at {sys.executable}"
        logging.getLogger(__name__).debug("fleet %s, %s, command %s", __version__, where, args)
        trace_programs()
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
        raise UsageError(f"{message[:1].lower()}{message[1:]}", hint=f"run `{at} --help` to see the usage") from error
    except click.ClickException as error:
        raise UsageError(error.format_message()) from error
    return code if isinstance(code, int) else 0


def _with_examples(command: click.Command) -> click.Command:
    """Let the help of a command and of its subcommands end with examples."""
    command.context_class = CommandContext
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        _with_examples(each)
    return command


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
    from fleet.cli.help import MEANT

    meant = MEANT.get(word) or next(iter(closest(word, [*COMMANDS, *ALIASES])), "")
    return f"did you mean `fleet {meant}`?" if meant else "run `fleet --help` to list the commands"
