"""The help of every command: grouped, short, and with examples that the commands accept."""

import re
import shlex
from collections.abc import Iterator

import click
import pytest

from fleet.cli.examples import EXAMPLES
from fleet.cli.help import TOPICS
from fleet.cli.main import ALIASES, COMMANDS, GROUPS, call, root
from fleet.core.finding import Finding
from fleet.core.task_status import BY_FINDING, ResultWord, TaskPhase

DAILY = ["create", "fanout", "status", "list", "attach", "diff", "prompt", "answer", "merge", "stop"]


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield all commands and subcommands with their words, except the verbs of bd, which have a parser of their own."""
    context = click.Context(root, info_name="fleet")
    for name in COMMANDS.keys() - {"bd"}:
        command = root.get_command(context, name)
        assert command is not None
        yield name, command
        for sub, each in command.commands.items() if isinstance(command, click.Group) else ():
            yield f"{name} {sub}", each


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert call(list(words)) == 0
    return capsys.readouterr().out


def parse(words: list[str]) -> None:
    """Parse a command line of fleet as the program does, without running it."""
    context, command = click.Context(root, info_name="fleet"), root
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        assert found is not None, words
        command, words = found, words[1:]  # type: ignore[assignment]
    command.make_context("fleet", [word for word in words if word not in ("--help", "--version")])


def test_help_groups_all_commands_with_the_daily_ones_first(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "--help")
    heads = re.findall(r"^([A-Z][\w ]+):$", text, re.MULTILINE)
    groups = ["Start agents", "Watch", "Steer", "Review and merge", "Queue", "Supervisor and hosts", "Set up"]
    assert heads == ["Options", "Daily", *groups, "Other names", "Examples"]
    named = re.findall(r"^  ([a-z]+) +[A-Z].{10,}$", text.partition("Daily:")[2].partition("Other names")[0], re.M)
    assert named == list(COMMANDS) and named[:10] == DAILY
    assert all(alias in text for alias in ALIASES)


def test_each_line_of_the_help_is_short_and_begins_with_a_verb() -> None:
    for group in GROUPS.values():
        for name, (_, text) in group.items():
            assert len(text) < 60, name
            assert re.match(r"[A-Z][a-z]+[ ,]", text), name
            assert not text.endswith("."), name


def test_help_of_each_command_ends_with_two_examples_of_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ["", "bd", *(words for words, _ in commands())]:
        text = printed(capsys, *words.split(), "--help")
        lines = text.rstrip().partition("\nExamples:\n")[2].splitlines()
        assert len(lines) == 2, words
        assert all(f"fleet {words}".rstrip() in line for line in lines), (words, lines)


def test_examples_are_accepted_by_the_commands_they_show() -> None:
    for lines in EXAMPLES.values():
        for line in lines:
            for part in re.split(r"&&|\||<", re.sub(r'^eval "\$\((.*)\)"$', r"\1", line)):
                words = shlex.split(part)
                if "fleet" in words[:2]:  # after `EDITOR=nano`
                    parse(words[words.index("fleet") + 1 :])


def test_no_example_is_left_of_a_command_that_is_gone() -> None:
    assert EXAMPLES.keys() == {"", "bd", *(words for words, _ in commands())}


def test_each_option_has_one_short_form_in_all_commands() -> None:
    short = {
        "--coder": "-c",
        "--yes": "-y",
        "--limit": "-n",
        "--lines": "-n",
        "--follow": "-f",
        "--delete-branch": "-d",
    }
    found: dict[str, set[str]] = {}
    for words, command in commands():
        for option in command.params:
            names = option.opts if isinstance(option, click.Option) and not option.hidden else []
            for name in names:
                if name in short:
                    assert short[name] in names, (words, name)
                found.setdefault(name, set()).add(words)
    for name in ("--agent", "--force", "--branches"):  # former spellings; `init --force` replaces files
        assert found.get(name, set()) <= {"init"}, name
    lists = {
        "status",
        "list",
        "tasks",
        "questions",
        "runs",
        "ready",
        "hosts",
        "accounts",
        "coders",
        "conflicts",
        "stats",
    }
    assert found["--json"] >= lists | {"cost", "queue", "config", "workflow list", "log", "doctor", "gc"}
    assert found["--dry-run"] >= {"stop", "kill", "done", "gc", "merge", "pr", "queue migrate", "workflow cleanup"}
    assert found["--all-projects"] >= {"list", "stop", "kill", "done", "retry", "wait", "merge", "pick", "conflicts"}


@pytest.mark.parametrize("topic", TOPICS)
def test_help_explains_each_topic(capsys: pytest.CaptureFixture[str], topic: str) -> None:
    assert printed(capsys, "help", topic) == printed(capsys, "help", *topic.split("-"))
    assert topic in printed(capsys, "help")


def test_help_topics_fit_a_terminal() -> None:
    assert [line for _, text in TOPICS.values() for line in text.splitlines() if len(line) > 80] == []


def test_help_explains_every_word_for_results_and_phases(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(BY_FINDING) >= {value for name, value in vars(Finding).items() if name.isupper()}
    for words, topic in ((ResultWord, "results"), (TaskPhase, "statuses")):
        text = " ".join(printed(capsys, "help", topic).split())
        assert [word for name, word in vars(words).items() if name.isupper() and word not in text] == []


def test_help_of_a_command_is_the_same_in_both_spellings(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ("merge", "workflow run", "send"):
        assert printed(capsys, "help", *words.split()) == printed(capsys, *words.split(), "--help")
