"""Default project settings by type of project: files that worktrees need, and commands that prepare them.

The functions are pure: the caller passes a test for the repository's files.
"""

import json
import re
from collections.abc import Callable
from typing import NamedTuple

Has = Callable[[str], bool]
"""A test that returns True if the repository has a file or directory at a path."""

Read = Callable[[str], str]
"""A function that returns the text of a file of the repository, or "" if it cannot be read."""

#: Folders of dependencies, and files because of which setup commands create the folder in each worktree.
_INSTALLED = {
    ".venv": ("uv.lock", "requirements.txt", "pyproject.toml", "setup.py"),
    "node_modules": ("package.json",),
}
_NAMES_PYTEST = ("pyproject.toml", "setup.cfg", "tox.ini", "requirements.txt", "requirements-dev.txt", "conftest.py")
_TEST_TARGET = re.compile(r"^test[ \t]*:(?!=)", re.MULTILINE)
GENERIC, MINIMAL = "generic", "minimal"


class ProjectDefaults(NamedTuple):
    """Files and commands that worktrees of a project get."""

    credential_files: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    """Slow commands that not every user wants. They are written as comments."""


def detect(has: Has) -> str:
    """Return the type of a project, judged by its files. The first match wins; the default is `generic`."""
    return next((kind for kind, files in _SIGNS if any(all(map(has, group)) for group in files)), GENERIC)


def get_project_defaults(kind: str, has: Has) -> ProjectDefaults:
    """Return the settings for this type of project, depending on its lock files and programs."""
    return TYPES[kind](has)


class Check(NamedTuple):
    """A verify command that suits a project, and the folders of installed dependencies that it uses."""

    command: str
    use: tuple[str, ...] = ()


def find_check(has: Has, read: Read) -> Check | None:
    """Return the project's own way to run its tests. Return None if none is known. `read` returns a file's text."""
    use = list_dependency_folders(has)
    if any(_TEST_TARGET.search(read(name)) for name in ("GNUmakefile", "makefile", "Makefile")):
        return Check("make test", use)
    if any("pytest" in read(name) for name in _NAMES_PYTEST) or has("pytest.ini"):
        return Check("pytest", use)
    if (script := _test_script(read("package.json"))) and "no test specified" not in script:
        return Check(f"{_node_program(has)} test", use)
    if has("Cargo.toml"):
        return Check("cargo test")
    return Check("go test ./...") if has("go.mod") else None


def list_dependency_folders(has: Has) -> tuple[str, ...]:
    """Return the folders of dependencies that a worktree of a project has, or has after its setup."""
    return tuple(name for name, files in _INSTALLED.items() if has(name) or any(map(has, files)))


def _test_script(text: str) -> str:
    try:
        found = json.loads(text or "{}")["scripts"]["test"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""
    return found if isinstance(found, str) else ""


def _rails(has: Has) -> ProjectDefaults:
    return ProjectDefaults(
        ("config/master.key", "config/credentials/development.key", ".env", ".env.local"),
        (
            "bundle check || bundle install",
            *(_node_install(has) if has("package.json") else ()),
            "RAILS_ENV=test bundle exec rails db:create db:migrate",
        ),
        ("RAILS_ENV=test bundle exec rails assets:precompile",),
    )


def _node(has: Has) -> ProjectDefaults:
    return ProjectDefaults((".env", ".env.local"), _node_install(has), (f"{_node_program(has)} run build",))


def _python(has: Has) -> ProjectDefaults:
    install, python = _python_install(has)
    migrate = (f"{python} manage.py migrate",) if has("manage.py") else ()
    return ProjectDefaults((".env", "secrets.json"), (*install, *migrate))


def _go(has: Has) -> ProjectDefaults:
    return ProjectDefaults((".env",), ("go mod download",), ("go build ./...",))


def _rust(has: Has) -> ProjectDefaults:
    return ProjectDefaults(
        (".env",), ("cargo fetch --locked" if has("Cargo.lock") else "cargo fetch",), ("cargo build",)
    )


def _generic(has: Has) -> ProjectDefaults:
    return ProjectDefaults((".env", ".env.local"))


def _minimal(has: Has) -> ProjectDefaults:
    return ProjectDefaults()


def _node_program(has: Has) -> str:
    locks = {"pnpm-lock.yaml": "pnpm", "yarn.lock": "yarn", "bun.lock": "bun", "bun.lockb": "bun"}
    return next((program for lock, program in locks.items() if has(lock)), "npm")


def _node_install(has: Has) -> tuple[str, ...]:
    """Return the command that installs exactly the locked versions, from the local cache if possible."""
    match _node_program(has):
        case "pnpm":
            return ("pnpm install --frozen-lockfile --prefer-offline",)
        case "yarn":
            # Yarn 2 and later keep their settings in this file, and refuse the option of yarn 1.
            return ("yarn install --immutable" if has(".yarnrc.yml") else "yarn install --frozen-lockfile",)
        case "bun":
            return ("bun install --frozen-lockfile",)
    locked = has("package-lock.json") or has("npm-shrinkwrap.json")
    return (f"npm {'ci' if locked else 'install'} --prefer-offline --no-audit --no-fund",)


def _python_install(has: Has) -> tuple[tuple[str, ...], str]:
    """Return the commands that create the worktree's own environment, and the command that starts its Python."""
    if has("uv.lock"):
        return ("uv sync --frozen",), "uv run python"
    if has("poetry.lock"):
        return ("poetry install --no-interaction",), "poetry run python"
    what = "-r requirements.txt" if has("requirements.txt") else "-e ."
    if not (has("requirements.txt") or has("pyproject.toml") or has("setup.py")):
        return (), "python3"
    return ("python3 -m venv .venv", f".venv/bin/pip install --quiet {what}"), ".venv/bin/python"


#: Most specific first: a Rails project has a package.json too.
_SIGNS: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...] = (
    ("rails", (("Gemfile", "config/application.rb"),)),
    ("python", (("pyproject.toml",), ("requirements.txt",), ("setup.py",))),
    ("go", (("go.mod",),)),
    ("rust", (("Cargo.toml",),)),
    ("node", (("package.json",),)),
)
TYPES: dict[str, Callable[[Has], ProjectDefaults]] = {
    "rails": _rails,
    "node": _node,
    "python": _python,
    "go": _go,
    "rust": _rust,
    GENERIC: _generic,
    MINIMAL: _minimal,
}
