"""Commands parsed without click: click understands each command line in the same way."""

import importlib
from itertools import product

import click
import pytest

from fleet.cli import lazy_click, main
from fleet.cli.lazy_click import LazyCommand, Parameter

WORDS = ("jwt", "-", "", "two words", "a=b")
NOT_PLAIN = (
    *(["--help"], ["-h"], ["--bogus"], ["-x"], ["--"], ["--json=yes"], ["--prompt"], ["-pfix"], ["-p=fix"]),
    *(["--jso"], ["-bfy"], ["--batch"], ["-"]),
)


def loaded(name: str) -> LazyCommand:
    module, _, attribute = lazy_click.COMMANDS[name].partition(":")
    found = getattr(importlib.import_module(module), attribute)
    assert isinstance(found, LazyCommand)
    return found


def parsed_by_click(command: LazyCommand, args: list[str]) -> dict[str, object] | None:
    try:
        return command.as_click().make_context("it", list(args)).params
    except (click.UsageError, click.exceptions.Exit):
        return None


def given(option: Parameter, value: str) -> list[list[str]]:
    """Return the ways to write an option on a command line."""
    if option.is_flag:
        return [[name] for name in option.names if name.startswith("-")]
    spaced = [[name, value] for name in option.names if name.startswith("-")]
    return [*spaced, *([f"{name}={value}"] for name in option.names if name.startswith("--"))]


@pytest.mark.parametrize("name", lazy_click.COMMANDS)
def test_command_stands_in_the_table_of_all_commands(name: str) -> None:
    assert main.COMMANDS[name][0] == lazy_click.COMMANDS[name]


@pytest.mark.parametrize("name", lazy_click.COMMANDS)
def test_parse_returns_what_click_returns_when_a_command_line_is_plain(name: str) -> None:
    command = loaded(name)
    options = [each for each in command.parameters if each.kind == "option"]
    lines: list[list[str]] = [[], ["jwt"], ["2", "jwt"], *(["jwt", word] for word in WORDS)]
    for option, value in product(options, (*WORDS, "--json", "-x")):
        for words in given(option, value):
            lines += [words, ["jwt", *words], [*words, "jwt"], ["jwt", *words, *words]]
    compared = 0
    for line in lines:
        values = command.parse(line)
        if values is not None:
            assert values == parsed_by_click(command, line), line
            compared += 1
    assert compared > len(options)


@pytest.mark.parametrize("name", lazy_click.COMMANDS)
@pytest.mark.parametrize("words", NOT_PLAIN)
def test_parse_leaves_to_click_what_is_not_plain(name: str, words: list[str]) -> None:
    command = loaded(name)
    values = command.parse(words)
    assert values is None or values == parsed_by_click(command, words)


def test_option_with_a_type_is_refused_when_it_is_declared() -> None:
    with pytest.raises(AssertionError, match="leave this command to click"):
        lazy_click.option("--count", type=int)
