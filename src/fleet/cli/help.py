"""`fleet help` and `fleet version`: explain a command or a topic, and print the version."""

import click

from fleet import __version__
from fleet.cli.bd import main as bd
from fleet.core.errors import UsageError
from fleet.core.jsontext import encode_printable
from fleet.settings.keys import iterate_documented_keys

NAMES = """\
Most commands take the NAME of a task:

  fleet-4k     the id of a task
  fix-login    the branch of a task in this repository
  4k           a unique part of an id, for commands that only read
  'jwt-*'      a glob over the branches of this repository; quote the glob
  jwt          a batch, for `merge`, `pick` and `kill --batch`
  wf_1a2b      a workflow, for `wait` and `fleet workflow`

If several tasks had a branch, NAME means the newest unfinished one. Pass
--all-projects to include other repositories.
"""
RESULTS = """\
`fleet list` and `fleet status` show one result for each task:

  verified                  The verify command passed in a clean checkout.
  unverified                The agent finished, but nothing proves its work.
  tests failed              The verify command failed.
  changed nothing           The agent says it is done, but changed nothing.
  claimed work not found    The agent reports work that fleet did not find.
  out of scope              The agent changed files that it may not change.
  not finished              The agent stopped before the end.
  interrupted               A limit, an outage or a lost agent ended the run.
  merged                    The work is in the target branch.
  done                      The task is closed, and no run was judged.
  stopped by you            You stopped the task. `fleet retry NAME` reopens it.
  stopped with its workflow The task's workflow was canceled.
  blocked                   The task needs a person: see `fleet show NAME`.

A task that has not started is ready, put off, set aside, parked, held by a
person, waiting for dependencies, or has no supervisor. `fleet receipt NAME`
shows the evidence for a result.
"""
STATUSES = """\
Every task has one of bd's statuses, which `fleet bd` and `fleet show` print:

  open          The task can start, or waits for other tasks.
  in_progress   An agent or a person works on the task.
  blocked       The task needs a person: `fleet status` shows why.
  deferred      The task waits until a date.
  closed        The task is finished.

`fleet list --json` adds the phase of the agent:

  queued            The task has not started.
  starting          The worktree is being prepared, or the agent is starting.
  working           The agent works.
  waiting for you   The agent asks a question or shows a dialog.
  idle              The agent has finished its turn and waits for a message.
  finished          The task is closed.
  failed            The task is blocked.
  stopped           You stopped the task.
"""
SETTINGS = """\
The first of these places that has a value wins:

  1. the options of a command, and the environment
  2. the task
  3. .fleet/config.toml in the repository, for the team
  4. runtime.toml in the home, for you
  5. the default

  fleet config --show-origin        show all settings, and where each comes from
  fleet config get verify.command   print one setting
  fleet config set coder=codex      change runtime.toml, or with --project
                                    the project file
  fleet config edit                 open the file in your editor
  fleet config validate             check all files

These settings exist:

"""
EXIT_CODES = """\
  0     The command did its work.
  1     The command failed, or the answer is no.
  2     The command line is wrong. `fleet bd` uses 1 for this.
  13    A guard of `fleet bd` (`--if-…`) did not match.
  124   The timeout of `fleet wait` ended the wait.
  130   You interrupted the command with Ctrl-C.
  141   The reader of the output is gone. The command did all of its work.

Errors go to stderr: `error:` says what failed and why, `hint:` what to do.
"""
#: The commands that users mean by words from other programs.
MEANT = {
    **dict.fromkeys(("start", "spawn", "new-agent", "launch"), "create"),
    **dict.fromkeys(("delete", "remove", "destroy", "clean"), "kill"),
    **dict.fromkeys(("cancel", "abort", "halt", "quit"), "stop"),
    **dict.fromkeys(("message", "tell", "say", "msg", "steer", "chat"), "prompt"),
    **dict.fromkeys(("reply", "respond", "approve"), "answer"),
    **dict.fromkeys(("spend", "spent", "costs", "usage", "budget", "tokens"), "cost"),
    **dict.fromkeys(("agents", "sessions", "branches", "worktrees", "worktree"), "list"),
    **dict.fromkeys(("top", "running", "jobs"), "tasks"),
    **dict.fromkeys(("open", "enter", "connect", "tmux"), "attach"),
    **dict.fromkeys(("tail", "output"), "logs"),
    **dict.fromkeys(("close", "complete", "submit"), "done"),
    **dict.fromkeys(("restart", "rerun", "reopen"), "retry"),
    **dict.fromkeys(("result", "results", "evidence", "report"), "receipt"),
    **dict.fromkeys(("add", "enqueue", "issue", "issues", "todo"), "bd"),
    **dict.fromkeys(("daemon", "serve", "server"), "supervisor"),
    **dict.fromkeys(("settings", "set"), "config"),
    **dict.fromkeys(("models", "login", "executors"), "coders"),
    **dict.fromkeys(("upgrade",), "update"),
    **dict.fromkeys(("setup", "install"), "init"),
    **dict.fromkeys(("dashboard", "overview", "inbox", "ui"), "status"),
}
TOPICS = {
    "names": ("How to name tasks, branches, batches and workflows", NAMES),
    "results": ("What each result of a task means", RESULTS),
    "statuses": ("What each status and phase of a task means", STATUSES),
    "settings": ("Where settings come from, and which exist", SETTINGS),
    "exit-codes": ("What each exit code means", EXIT_CODES),
}


@click.command("help")
@click.argument("words", metavar="[COMMAND|TOPIC]", nargs=-1)
@click.pass_context
def help_command(context: click.Context, words: tuple[str, ...]) -> None:
    """Explain a command, or one of the topics names, results, statuses, settings and exit-codes."""
    name = "-".join(words)
    if name in TOPICS:
        click.echo(TOPICS[name][1] + (_settings() if name == "settings" else ""), nl=False)
        return
    found = context.find_root()
    for word in words:
        command = found.command.get_command(found, word) if isinstance(found.command, click.Group) else None
        if command is None:
            topics = ", ".join(TOPICS)
            raise UsageError(
                f"no such command or topic {' '.join(words)!r}", hint=f"run `fleet help`, or name one of {topics}"
            )
        found = command.context_class(command, info_name=word, parent=found)
        if word == "bd":
            context.exit(bd([*words[1:], "--help"]))
    click.echo(found.get_help())
    if not words:
        lines = [f"  {topic:<12}{text}" for topic, (text, _) in TOPICS.items()]
        click.echo("\n".join(["\nTopics for `fleet help TOPIC`:", *lines]))


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def version(as_json: bool) -> None:
    """Print the version of fleet."""
    click.echo(encode_printable({"version": __version__}) if as_json else f"fleet {__version__}")


def _settings() -> str:
    return "".join(f"  {name}\n      {_first_sentence(key.help)}\n" for name, key in iterate_documented_keys())


def _first_sentence(text: str) -> str:
    return " ".join(text.split()).partition(". ")[0].rstrip(".") + "."
