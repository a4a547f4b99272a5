"""Parser for bd's command lines, driven by tables of flags that also provide the help text."""

from __future__ import annotations

from fleet.core.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: Kinds of flag values: FLAG takes none, LIST splits at commas and accumulates, EACH accumulates, others keep the last.
KINDS = ("TEXT", "INT", "LIST", "EACH", "FLAG")

GLOBAL_FLAGS = """
--json              | answer in JSON
--format TEXT       | json is the same as --json
-C --directory TEXT | work as if started in this directory
--actor TEXT        | who is acting (default: BEADS_ACTOR, git user.name, USER)
--readonly          | refuse to write
-q --quiet          | say only what was asked for
-v --verbose        | say more
-h --help           | show this help
--sandbox           | accepted; there is nothing to sync
--no-auto-flush     | accepted; there is nothing to flush
--no-auto-import    | accepted; there is nothing to import
--no-daemon         | accepted; there is no daemon
--dolt-auto-commit TEXT | accepted; there is no dolt
--ignore-schema-skew    | accepted; the schema is always checked
--db TEXT           | not supported: the queue is the one in $FLEET_HOME
--global            | not supported: the queue is the one in $FLEET_HOME
--profile           | not supported
"""


class Flag:
    """A flag: its spellings, the kind of its value, and its help."""

    def __init__(self, row: str) -> None:
        left, _, self.help = (part.strip() for part in row.partition("|"))
        words = left.split()
        self.kind = words.pop() if words[-1] in KINDS else "FLAG"
        self.names = words
        self.dest = next(word for word in words if word.startswith("--"))[2:]


class Arguments:
    """The parsed words of a command and the flags that were given."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.given: dict[str, list[str]] = {}

    def has(self, name: str) -> bool:
        return name in self.given

    def flag(self, name: str) -> bool:
        return self.given.get(name, ["false"])[-1] not in ("false", "0", "f", "F", "FALSE", "False")

    def text(self, name: str, default: str = "") -> str:
        return self.given[name][-1] if name in self.given else default

    def many(self, name: str) -> list[str]:
        return self.given.get(name, [])

    def number(self, name: str, default: int) -> int:
        text = self.text(name, str(default))
        try:
            return int(text)
        except ValueError:
            raise UsageError(f'invalid argument "{text}" for "--{name}" flag: not a whole number') from None

    def word(self, at: int, what: str) -> str:
        """Return a positional argument. Raises UsageError if it is missing."""
        if at < len(self.words):
            return self.words[at]
        raise UsageError(f"missing argument: {what}")

    def exactly(self, count: int) -> list[str]:
        """Return the positional arguments. Raises UsageError unless exactly `count` are given."""
        if len(self.words) != count:
            raise UsageError(f"accepts {count} arg(s), received {len(self.words)}")
        return self.words

    def at_least(self, count: int) -> list[str]:
        """Return the positional arguments. Raises UsageError if fewer than `count` are given."""
        if len(self.words) < count:
            raise UsageError(f"requires at least {count} arg(s), only received {len(self.words)}")
        return self.words


def table(rows: str) -> list[Flag]:
    """Return the flags of a table with one flag per line."""
    return [Flag(row) for row in rows.strip().splitlines() if row.strip()]


def split_verb(argv: list[str]) -> tuple[str, list[str]]:
    """Return the verb and all other words in order. Global flags can precede the verb."""
    flags = _by_name(table(GLOBAL_FLAGS))
    at = 0
    while at < len(argv):
        word = argv[at]
        if word == "--version":
            return "version", argv[:at] + argv[at + 1 :]
        if not word.startswith("-") or word == "-":
            return word, argv[:at] + argv[at + 1 :]
        flag = flags.get(word)
        at += 2 if flag is not None and flag.kind != "FLAG" else 1
    return "", argv


def parse(argv: list[str], flags: list[Flag]) -> Arguments:
    """Parse a command line. Raises UsageError for an unknown flag or a missing value."""
    known, result, rest = _by_name(flags), Arguments(), iter(argv)
    for word in rest:
        if word == "--":
            result.words += rest
        elif word.startswith("--"):
            name, equals, value = word.partition("=")
            _keep(result, known.get(name), name, value if equals else None, rest)
        elif word.startswith("-") and word != "-":
            _parse_short(word, known, result, rest)
        else:
            result.words.append(word)
    return result


def _by_name(flags: list[Flag]) -> dict[str, Flag]:
    return {name: flag for flag in flags for name in flag.names}


def _parse_short(word: str, known: dict[str, Flag], result: Arguments, rest: Iterator[str]) -> None:
    letters = word[1:]
    while letters:
        name, letters = "-" + letters[0], letters[1:]
        flag = known.get(name)
        if flag is None:
            raise UsageError(f"unknown shorthand flag: {name[1:]!r} in {word}")
        if flag.kind == "FLAG":
            _keep(result, flag, name, None, rest)
        else:
            _keep(result, flag, name, letters.removeprefix("=") if letters else None, rest)
            return


def _keep(result: Arguments, flag: Flag | None, name: str, value: str | None, rest: Iterator[str]) -> None:
    if flag is None:
        raise UsageError(f"unknown flag: {name}")
    if value is None:
        value = "true" if flag.kind == "FLAG" else next(rest, None)
        if value is None:
            raise UsageError(f"flag needs an argument: {name}")
    values = [part.strip() for part in value.split(",")] if flag.kind == "LIST" else [value]
    result.given.setdefault(flag.dest, []).extend(values)
