"""Click's decorators for the commands that people and agents run most, without the import of click.

Importing click takes twice as long as starting Python. A command declared here is parsed without it. Click itself
parses what is not plain: help, completion, wrong options, words after `--`. So it also writes every error.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys

from fleet.cli.errors import debugging

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import click

#: The commands that `call` runs without click.
COMMANDS = {
    "create": "fleet.cli.create:create",
    "fanout": "fleet.cli.create:fanout",
    "multi": "fleet.cli.create:multi",
    "list": "fleet.cli.list_agents:list_agents",
    "kill": "fleet.cli.kill:kill",
    "stop": "fleet.cli.kill:stop",
}
#: What `parse` understands of a declaration.
KNOWN = {"default", "former", "help", "is_flag", "metavar", "multiple", "nargs", "shell_complete", "show_default"}


class Parameter:
    """An option or an argument as it was declared."""

    def __init__(self, kind: str, names: tuple[str, ...], settings: dict[str, Any]) -> None:
        assert settings.keys() <= KNOWN, f"{names}: leave this command to click"
        self.kind, self.names, self.settings = kind, names, settings
        long = [name for name in names if name.startswith("--")]
        self.name = next((name for name in names if not name.startswith("-")), "") or long[0][2:].replace("-", "_")
        self.is_flag = bool(settings.get("is_flag"))
        self.is_many = bool(settings.get("multiple")) or settings.get("nargs") == -1

    @property
    def spellings(self) -> tuple[str, ...]:
        """Return all names, with the former ones that the help does not show."""
        return (*self.names, *self.settings.get("former", ()))

    @property
    def default(self) -> Any:
        return () if self.is_many else self.settings.get("default", False if self.is_flag else None)


class LazyCommand:
    """A command that becomes click's only if click has to parse it."""

    def __init__(self, name: str | None, function: Callable[..., int | None], parameters: list[Parameter]) -> None:
        self.name, self.function, self.parameters = name, function, parameters

    def parse(self, args: list[str]) -> dict[str, Any] | None:
        """Return the values for the function, or None if click has to parse these words."""
        options = {name: each for each in self.parameters if each.kind == "option" for name in each.spellings}
        values: dict[str, Any] = {each.name: each.default for each in self.parameters}
        words, rest = list[str](), iter(args)
        for word in rest:
            if not word.startswith("-") or word == "-":
                words.append(word)
                continue
            name, equals, value = word.partition("=")
            option = options.get(name)
            if option is None or not name.startswith("-") or (equals and (option.is_flag or name[:2] != "--")):
                return None
            given = True if option.is_flag else value if equals else next(rest, None)
            if given is None:
                return None
            values[option.name] = (*values[option.name], given) if option.is_many else given
        for each in self.parameters:
            if each.kind == "argument":
                if not each.is_many and not words:
                    return None
                values[each.name], words = (tuple(words), []) if each.is_many else (words[0], words[1:])
        return None if words else values

    def as_click(self) -> click.Command:
        """Return click's command with the same declarations."""
        import click

        made: Any = self.function
        for each in reversed(self.parameters):
            settings = dict(each.settings)
            if source := settings.get("shell_complete"):
                from fleet.cli import completion

                settings["shell_complete"] = getattr(completion, source)
            if "former" in settings:
                from fleet.cli.options import Option

                settings["cls"] = Option
            made = getattr(click, each.kind)(*each.names, **settings)(made)
        return click.command(self.name)(made)


def call(args: list[str]) -> int | None:
    """Run a command line without click. Return None if click has to parse it."""
    if not args or args[0] not in COMMANDS or "_FLEET_COMPLETE" in os.environ or debugging():
        return None
    module, _, name = COMMANDS[args[0]].partition(":")
    command: LazyCommand = getattr(importlib.import_module(module), name)
    values = command.parse(args[1:])
    if values is None:
        return None
    gc.freeze()
    gc.enable()
    return command.function(**values) or 0


def command(name: str | None = None) -> Callable[[Callable[..., int | None]], LazyCommand]:
    def declare(function: Callable[..., int | None]) -> LazyCommand:
        return LazyCommand(name, function, function.__dict__.pop("parameters", []))

    return declare


def option(*names: str, **settings: Any) -> Callable[[Callable[..., int | None]], Callable[..., int | None]]:
    return _declared(Parameter("option", names, settings))


def argument(*names: str, **settings: Any) -> Callable[[Callable[..., int | None]], Callable[..., int | None]]:
    return _declared(Parameter("argument", names, settings))


def _declared(parameter: Parameter) -> Callable[[Callable[..., int | None]], Callable[..., int | None]]:
    def declare(function: Callable[..., int | None]) -> Callable[..., int | None]:
        function.__dict__.setdefault("parameters", []).insert(0, parameter)
        return function

    return declare


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print as `click.echo` does: at once, so that the order of both streams is kept."""
    stream = sys.stderr if err else sys.stdout
    stream.write(f"{text}\n" if nl else text)
    stream.flush()
