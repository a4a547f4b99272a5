"""Command lines, parsed as bd parses them."""

import pytest

from fleet.cli.bd.arguments import parse, split_verb, table
from fleet.core.errors import UsageError

FLAGS = table("""
-p --priority TEXT   | a text
-l --labels LIST     | a list
-r --reason EACH     | each
-n --limit INT       | a number
-f --force           | a switch
-q --quiet           | another
""")


@pytest.mark.parametrize("argv", [["-p", "1"], ["-p1"], ["-p=1"], ["--priority", "1"], ["--priority=1"], ["-fp", "1"]])
def test_each_spelling_of_a_value_is_parsed(argv: list[str]) -> None:
    assert parse(argv, FLAGS).text("priority") == "1"


def test_lists_are_split_and_joined_and_other_flags_keep_the_last_value() -> None:
    found = parse(["-l", "a,b", "--labels=c", "-r", "x,y", "-r", "z", "-p", "1", "-p", "2"], FLAGS)
    assert found.many("labels") == ["a", "b", "c"]
    assert found.many("reason") == ["x,y", "z"]
    assert found.text("priority") == "2"


def test_positional_arguments_and_flags_mix_until_two_dashes() -> None:
    found = parse(["one", "-f", "two", "--", "--priority", "-x"], FLAGS)
    assert (found.words, found.flag("force"), found.has("priority")) == (
        ["one", "two", "--priority", "-x"],
        True,
        False,
    )


def test_switches_combine_and_can_be_turned_off() -> None:
    assert parse(["-fq"], FLAGS).flag("quiet")
    assert not parse(["--force=false"], FLAGS).flag("force")


def test_value_may_look_like_a_flag_or_be_empty() -> None:
    assert parse(["--priority", "-1"], FLAGS).text("priority") == "-1"
    found = parse(["--priority="], FLAGS)
    assert (found.has("priority"), found.text("priority", "2")) == (True, "")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--nonsense"], "unknown flag: --nonsense"),
        (["-x"], "unknown shorthand flag: 'x' in -x"),
        (["--priority"], "flag needs an argument: --priority"),
        (["-p"], "flag needs an argument: -p"),
    ],
)
def test_unknown_flag_is_refused(argv: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(argv, FLAGS)


def test_invalid_number_is_refused() -> None:
    with pytest.raises(UsageError, match="not a whole number"):
        parse(["-n", "many"], FLAGS).number("limit", 5)


def test_global_flags_may_precede_the_verb() -> None:
    assert split_verb(["--json", "--actor", "bob", "show", "x"]) == ("show", ["--json", "--actor", "bob", "x"])
    assert split_verb(["--json"]) == ("", ["--json"])
