"""Write the generated pages of docs/reference: `make docs`. With --check write nothing and name stale pages."""

import contextlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fleet.cli.bd import main as bd_main
from fleet.cli.bd.verbs import VERBS
from fleet.cli.main import COMMANDS, call
from fleet.settings.keys import ALIASES, PROJECT, SCOPES, in_scope, iterate_documented_keys

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
NOTE = "<!-- Written by `make docs`; do not edit. -->"


def main() -> None:
    """Write the pages, or check them."""
    with tempfile.TemporaryDirectory() as home:
        os.environ.clear()
        os.environ.update(HOME=home, FLEET_HOME=home, COLUMNS="100")
        pages = {"commands.md": commands(), "bd.md": bd(), "settings.md": settings()}
    stale = [name for name, text in pages.items() if not _is_current(FOLDER / name, text)]
    if sys.argv[1:] == ["--check"]:
        sys.exit(f"error: out of date: {', '.join(stale)}\nhint:  make docs" if stale else 0)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in stale:
        (FOLDER / name).write_text(pages[name], "utf-8")
        print(f"wrote {FOLDER / name}")


def commands() -> str:
    """Return the page of all commands except bd's: the help of each."""
    parts = [
        NOTE,
        "# Commands",
        "`flt` is the same program. [Another page](bd.md) has the verbs of `fleet bd`.",
    ]
    for words in [(), *(found for name in COMMANDS if name != "bd" for found in _with_subcommands((name,)))]:
        parts += [f"## fleet {' '.join(words)}".rstrip(), f"```text\n{_help(*words)}\n```"]
    return "\n\n".join(parts) + "\n"


def bd() -> str:
    """Return the page of all verbs of `fleet bd`."""
    parts = [NOTE, "# fleet bd", f"```text\n{_help('bd')}\n```"]
    for verb in VERBS:
        own = _help("bd", *verb.split()).partition("\nflags of every command:")[0].rstrip()
        parts += [f"## bd {verb}", f"```text\n{own}\n```"]
    return "\n\n".join(parts) + "\n"


def settings() -> str:
    """Return the page of all settings, from the place where they are declared."""
    spellings = {path: ".".join(other) for other, path in ALIASES.items()}
    rows = ["| key | where | value | default | meaning |", "|---|---|---|---|---|"]
    for name, key in iterate_documented_keys():
        where = " and ".join(scope for scope in SCOPES if in_scope(key.path, scope))
        also = f" (also `{spellings[key.path]}`)" if key.path in spellings else ""
        default = "not set" if key.default is None else f"`{_toml(key.default)}`"
        help_text = key.help.replace("\n", " ").replace("|", "\\|")
        rows.append(f"| `{name}`{also} | {where} | {key.shape()} | {default} | {help_text} |")
    intro = (
        f"*home* is `$FLEET_HOME/runtime.toml`; *{PROJECT}* is `.fleet/config.toml` in a repository. A task wins over "
        "the project, the project over the home, and the home over the default. `fleet config --show-origin` names the "
        "origin of each value."
    )
    return "\n\n".join([NOTE, "# Settings", intro, "\n".join(rows)]) + "\n"


def _with_subcommands(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield words
    for name in re.findall(r"^  ([a-z][\w-]*)  ", _help(*words).partition("\nCommands:\n")[2], re.MULTILINE):
        yield from _with_subcommands((*words, name))


def _help(*words: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = bd_main([*words[1:], "--help"]) if words[:1] == ("bd",) else call([*words, "--help"])
    if code != 0:
        sys.exit(f"error: `fleet {' '.join(words)} --help` failed")
    return printed.getvalue().rstrip()


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(_toml(item) for item in value)}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _is_current(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text("utf-8") == text


if __name__ == "__main__":
    main()
