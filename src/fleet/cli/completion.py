"""`fleet completion`: the scripts for shell completion, and the names that they offer.

The shell calls fleet at every press of the key. Names of tasks come only from the database, and errors are never shown.
"""

import os
import re
import tomllib
from collections.abc import Iterable, Iterator

import click
from click.shell_completion import CompletionItem, get_completion_class, shell_complete

from fleet.assembly import open_fleet
from fleet.cli.bd.verbs import VERBS
from fleet.cli.text import clean
from fleet.coders import CODERS
from fleet.core.errors import FleetError
from fleet.core.filter import Filter
from fleet.core.task import WORKTREE, Task
from fleet.home import find

VARIABLE = "_FLEET_COMPLETE"
SHELLS = {
    "bash": 'eval "$(fleet completion bash)"',
    "zsh": 'eval "$(fleet completion zsh)"',
    "fish": "fleet completion fish | source",
}
FILES = {"bash": "~/.bashrc", "zsh": "~/.zshrc, after compinit", "fish": "~/.config/fish/config.fish"}
#: Replacements that make the script for `fleet` serve `flt` too.
ALSO = {
    "bash": ("_completion fleet\n", "_completion fleet flt\n"),
    "zsh": ("compdef _fleet_completion fleet\n", "compdef _fleet_completion fleet flt\n"),
    "fish": ("--command fleet ", "--command fleet --command flt "),
}
MOST = 300
#: Commands that are useful on stopped tasks.
TAKE_STOPPED = ("bd", "retry")
# Bash inserts a choice unquoted: a branch called `x;reboot` would run a command there.
_PLAIN = re.compile(r"[\w.@+%][\w./@+%=,#-]*")


@click.command()
@click.argument("shell", type=click.Choice(list(SHELLS)))
def completion(shell: str) -> None:
    """Print a script that completes commands, options, branches, tasks and coders in a shell."""
    made = get_completion_class(shell)
    if made is None:
        raise FleetError(f"click knows no {shell}", hint="install a newer click")
    # `source()` is not used because it starts bash to check its version.
    template = made(click.Command("fleet"), {}, "fleet", VARIABLE)
    text = template.source_template % template.source_vars()
    click.echo(f"# To have it in every new shell, put `{SHELLS[shell]}` into {FILES[shell]}.")
    click.echo(text.replace(*ALSO[shell]), nl=False)


def answer(root: click.Command, instruction: str) -> int:
    """Print the completions for the command line in the shell's variables."""
    try:
        return shell_complete(root, {}, "fleet", VARIABLE, instruction)
    except Exception:  # noqa: BLE001 — errors must not disturb a user who is typing
        return 1


def complete_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer branches and tasks of the current repository, else of all.

    Stopped tasks appear only where they are useful.
    """
    where = Filter() if ctx.command.name in TAKE_STOPPED else Filter(stopped=False)
    with open_fleet(find()) as fleet:
        worktrees = fleet.store.tasks.find(where.replace(workspace=WORKTREE), sort="updated", limit=MOST)
        others = fleet.store.tasks.find(where.replace(unfinished=True), limit=MOST)
    return _offered(_here([*worktrees, *others]), incomplete)


def complete_coders(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the built-in coders, and those that runtime.toml describes."""
    names = [*CODERS, *_described(find().settings)]
    return [CompletionItem(name) for name in names if name.startswith(incomplete) and _PLAIN.fullmatch(name)]


def complete_batches(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the batches of unfinished tasks and of agents with a worktree, the newest first."""
    with open_fleet(find()) as fleet:
        tasks = fleet.store.tasks.find(Filter(stopped=False), sort="updated", limit=MOST)
    names = dict.fromkeys(task.batch for task in tasks if task.batch)
    return [CompletionItem(name) for name in names if name.startswith(incomplete) and _PLAIN.fullmatch(name)]


def complete_refs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the branches and tags of the current repository."""
    from fleet.git.repository import find_repository
    from fleet.git.view import View

    home = find()
    home.check()
    view = View(home, find_repository(os.getcwd()))  # noqa: PTH109
    words = ("for-each-ref", f"--count={MOST}", "--sort=-committerdate", "--format=%(refname:lstrip=2)")
    names = view.text(*words, "refs/heads", "refs/remotes", "refs/tags").splitlines()
    return [CompletionItem(name) for name in names if name.startswith(incomplete) and _PLAIN.fullmatch(name)]


def complete_settings(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the keys of settings, for `config set` with an equals sign."""
    from fleet.settings.keys import iterate_documented_keys

    end = "=" if ctx.command.name == "set" else ""
    found = [(f"{name}{end}", key.help) for name, key in iterate_documented_keys()]
    return [CompletionItem(name, help=clean(text)[:60]) for name, text in found if name.startswith(incomplete)]


def complete_bd(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the verbs of bd, and tasks after a verb."""
    words = list(ctx.params.get(param.name or "") or ())
    following = {verb.split()[len(words)]: text for verb, (*_, text) in VERBS.items() if _goes_on(verb, words)}
    if following or not words:
        return [CompletionItem(word, help=text) for word, text in following.items() if word.startswith(incomplete)]
    return complete_names(ctx, param, incomplete)


def _goes_on(verb: str, words: list[str]) -> bool:
    parts = verb.split()
    return len(parts) > len(words) and parts[: len(words)] == words


def _here(tasks: list[Task]) -> list[Task]:
    """Return the tasks of the current repository and those without a repository. Elsewhere, return all tasks."""
    cwd = os.getcwd() + "/"  # noqa: PTH109
    inside = {task.repo for task in tasks if task.repo and cwd.startswith(task.repo + "/")}
    return [task for task in tasks if task.repo in ("", max(inside, key=len))] if inside else tasks


def _offered(tasks: Iterable[Task], incomplete: str) -> list[CompletionItem]:
    found: dict[str, str] = {}
    for task in tasks:
        for name in _names(task, incomplete):
            if name.startswith(incomplete) and _PLAIN.fullmatch(name):
                found.setdefault(name, clean(task.title)[:60])
    return [CompletionItem(name, help=title or None) for name, title in list(found.items())[:MOST]]


def _names(task: Task, incomplete: str) -> Iterator[str]:
    """Yield the task's branch. Yield its id too if it has no branch or the user has begun to type."""
    if task.branch:
        yield task.branch
    if incomplete or not task.branch:
        yield task.id


def _described(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            coders = tomllib.loads(file.read()).get("coders", {})
    except (OSError, ValueError):
        return []
    return [str(name) for name in coders] if isinstance(coders, dict) else []
