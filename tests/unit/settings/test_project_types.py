"""The content of a new project file, which follows from the files of a repository."""

import tomllib
from collections.abc import Callable
from typing import Any

import pytest

from fleet.settings.check import check
from fleet.settings.keys import PROJECT, Path
from fleet.settings.project_types import TYPES, Check, detect, find_check, get_project_defaults
from fleet.settings.text import default_text, fill_text


def having(*names: str) -> Callable[[str], bool]:
    return lambda name: name in names


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        (("Gemfile", "config/application.rb", "package.json"), "rails"),
        (("Gemfile", "package.json"), "node"),
        (("package.json",), "node"),
        (("pyproject.toml", "package.json"), "python"),
        (("requirements.txt",), "python"),
        (("setup.py",), "python"),
        (("go.mod",), "go"),
        (("Cargo.toml", "Cargo.lock"), "rust"),
        (("Gemfile",), "generic"),
        ((), "generic"),
    ],
)
def test_project_type_follows_from_its_files(files: tuple[str, ...], kind: str) -> None:
    assert detect(having(*files)) == kind


@pytest.mark.parametrize(
    ("files", "check"),
    [
        ({"Makefile": "all:\n\ntest: all\n\tpytest\n"}, Check("make test")),
        ({"Makefile": "test := x\n", "go.mod": ""}, Check("go test ./...")),
        ({"Makefile": "test:\n", "package.json": "{}"}, Check("make test", ("node_modules",))),
        ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, Check("pytest", (".venv",))),
        ({"pytest.ini": ""}, Check("pytest")),
        ({"package.json": '{"scripts": {"test": "jest"}}'}, Check("npm test", ("node_modules",))),
        ({"package.json": '{"scripts": {"test": "jest"}}', "yarn.lock": ""}, Check("yarn test", ("node_modules",))),
        ({"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'}, None),
        ({"package.json": "["}, None),
        ({"package.json": '{"scripts": []}'}, None),
        ({"Cargo.toml": ""}, Check("cargo test")),
        ({"go.mod": ""}, Check("go test ./...")),
        ({"README.md": "pytest\n"}, None),
    ],
)
def test_verify_command_follows_from_files_of_the_project(files: dict[str, str], check: Check | None) -> None:
    assert find_check(lambda name: name in files, lambda name: files.get(name, "")) == check


@pytest.mark.parametrize(
    ("kind", "files", "commands"),
    [
        ("node", (), ["npm install --prefer-offline --no-audit --no-fund"]),
        ("node", ("package-lock.json",), ["npm ci --prefer-offline --no-audit --no-fund"]),
        ("node", ("npm-shrinkwrap.json",), ["npm ci --prefer-offline --no-audit --no-fund"]),
        ("node", ("pnpm-lock.yaml",), ["pnpm install --frozen-lockfile --prefer-offline"]),
        ("node", ("yarn.lock",), ["yarn install --frozen-lockfile"]),
        ("node", ("yarn.lock", ".yarnrc.yml"), ["yarn install --immutable"]),
        ("node", ("bun.lock",), ["bun install --frozen-lockfile"]),
        ("node", ("bun.lockb",), ["bun install --frozen-lockfile"]),
        ("python", ("uv.lock", "pyproject.toml"), ["uv sync --frozen"]),
        ("python", ("uv.lock", "manage.py"), ["uv sync --frozen", "uv run python manage.py migrate"]),
        ("python", ("poetry.lock",), ["poetry install --no-interaction"]),
        (
            "python",
            ("requirements.txt", "manage.py"),
            [
                "python3 -m venv .venv",
                ".venv/bin/pip install --quiet -r requirements.txt",
                ".venv/bin/python manage.py migrate",
            ],
        ),
        ("python", ("pyproject.toml",), ["python3 -m venv .venv", ".venv/bin/pip install --quiet -e ."]),
        ("python", (), []),
        ("go", (), ["go mod download"]),
        ("rust", ("Cargo.lock",), ["cargo fetch --locked"]),
        ("rust", (), ["cargo fetch"]),
        (
            "rails",
            ("package.json", "yarn.lock"),
            [
                "bundle check || bundle install",
                "yarn install --frozen-lockfile",
                "RAILS_ENV=test bundle exec rails db:create db:migrate",
            ],
        ),
        ("generic", ("package.json",), []),
        ("minimal", ("package.json",), []),
    ],
)
def test_commands_follow_from_the_lock_file(kind: str, files: tuple[str, ...], commands: list[str]) -> None:
    assert list(get_project_defaults(kind, having(*files)).commands) == commands


def test_files_to_copy_follow_from_the_project_type() -> None:
    wanted = {
        "rails": ("config/master.key", "config/credentials/development.key", ".env", ".env.local"),
        "node": (".env", ".env.local"),
        "python": (".env", "secrets.json"),
        "go": (".env",),
        "rust": (".env",),
        "generic": (".env", ".env.local"),
        "minimal": (),
    }
    assert {kind: get_project_defaults(kind, having()).credential_files for kind in TYPES} == wanted


def test_filled_file_has_given_values_below_their_help_and_is_valid() -> None:
    values: dict[Path, Any] = {
        ("coder",): "codex",
        ("setup", "commands"): ("make 'a'", 'say "b"'),
        ("coders", "codex", "model"): "o3",
    }
    text = fill_text(PROJECT, values, {("setup", "commands"): ["make slow"]})
    assert check(tomllib.loads(text), PROJECT).values == {
        ("coder",): "codex",
        ("setup", "commands"): ["make 'a'", 'say "b"'],
        ("coders", "codex", "model"): "o3",
    }
    assert "# Commands to run in each new worktree, in this order.\ncommands = [\n    \"make 'a'\",\n" in text
    assert '\n    # "make slow",\n]\n' in text
    assert "\n[setup]\n" in text and "\n# [verify]\n" in text
    assert fill_text(PROJECT, {}) == default_text(PROJECT)


@pytest.mark.parametrize("kind", TYPES)
def test_file_of_each_type_is_valid_with_and_without_its_comments(kind: str) -> None:
    made = get_project_defaults(kind, having("package.json", "Cargo.lock", "requirements.txt"))
    values: dict[Path, Any] = {
        ("setup", "credential_files"): made.credential_files,
        ("setup", "commands"): made.commands,
    }
    text = fill_text(PROJECT, values, {("setup", "commands"): made.optional})
    assert check(tomllib.loads(text), PROJECT).problems == []
    lines = (line.replace("# ", "", 1) if line.startswith("    # ") else line for line in text.splitlines())
    whole = check(tomllib.loads("\n".join(lines)), PROJECT)
    assert list(whole.values["setup", "commands"]) == [*made.commands, *made.optional]
