"""An agent's claims compared with the evidence (E6). In doubt a claim is believed: a false alarm costs trust."""

# Paths are text with any byte in it, as git has them.
# ruff: noqa: PTH111, PTH117, PTH118
from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING

from fleet.core.globs import matches_glob
from fleet.core.record import Record
from fleet.proof.stream import StreamEvidence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from fleet.supervisor.agent_files import ResultFile

#: Maximum number of claims of a kind to examine. Further claims prove nothing.
MOST_CLAIMS = 1_000
MOST_SHOWN = 20
LONGEST_CLAIM = 500
COMMIT = re.compile(r"[0-9a-fA-F]{7,64}")
#: The end of the path in "src/a.py (new)", "src/a.py: the parser", "old.py -> new.py".
_NOTE = re.compile(r"\s+\(|:\s|\s+[-–—]+>?\s|\s*(?:->|=>|→)\s*|\s+#|,\s")
#: Test and check programs. Their names show that a claim is a command and not a sentence.
RUNNERS = frozenset(
    (
        *("pytest", "py.test", "unittest", "nose2", "tox", "nox", "coverage", "npm", "yarn", "pnpm", "bun"),
        *("deno", "jest", "vitest", "mocha", "karma", "cypress", "playwright", "go", "cargo", "make", "gmake"),
        *("cmake", "ctest", "ninja", "meson", "bazel", "gradle", "gradlew", "mvn", "mvnw", "ant", "dotnet"),
        *("rake", "rspec", "bundle", "phpunit", "composer", "mix", "swift", "xcodebuild", "ruff", "mypy"),
        *("pyright", "flake8", "pylint", "tsc", "eslint", "prettier", "shellcheck", "golangci-lint", "sbt"),
        *("lein", "stack", "cabal", "zig", "dart", "flutter", "just", "pre-commit", "hatch", "uv", "poetry"),
    )
)
#: Programs whose child processes are not visible.
OPAQUE = frozenset(
    (
        *("make", "gmake", "just", "task", "rake", "tox", "nox", "npm", "yarn", "pnpm", "bun", "npx", "ninja"),
        *("bazel", "gradle", "gradlew", "mvn", "ant", "docker", "podman", "ssh", "tmux", "screen", "xargs"),
        *("parallel", "nohup", "pre-commit", "hatch", "poetry", "invoke"),
    )
)
_BEFORE = frozenset(
    (
        *("sudo", "env", "time", "timeout", "nice", "exec", "command", "python", "python3", "py", "sh", "bash"),
        *("zsh", "run", "-m", "-c", "-lc", "-u", "-x"),
    )
)
#: The end of a sentence. A command can also end with a dot, after a space: `ruff check .`
_SENTENCE = re.compile(r"\w[.!?]$")
_WORD = re.compile(r"[A-Za-z0-9_.+/-]+")
#: Separators of commands in a line, approximately, and commands that only mention the names of programs.
_PARTS = re.compile(r"[\n;&|]+|\$\(|`")
_ONLY_SAID = re.compile(r"\s*(?:echo|printf|:|true|false|grep|rg|cat|ls|which|type|head|tail|#)(?:\s|$)")
#: A script or a program of the project in the position of a command.
_SCRIPT = re.compile(
    r"(?:^|[;&|(\n]|\b(?:python3?|py|sh|bash|zsh|node|ruby|perl|source|exec|time|env|sudo)\s)\s*"
    r"(?:\./[^\s;&|)]+|/[^\s;&|)]+/[^\s;&|)]+|[^\s;&|)]+\.(?:sh|py|js|ts|rb|pl|bash))(?=[\s;&|)]|$)"
)


class ClaimContext(Record):
    """The facts with which claims are compared."""

    top: str  # the working directory of the run
    artifacts: str
    started: float  # seconds since 1970
    is_git: bool = True
    changed: tuple[str, ...] = ()  # the files that differ
    stream: StreamEvidence = StreamEvidence()
    tells_tools: bool = True


class Claims(Record):
    """An agent's claims, and those that are false."""

    status: str = ""
    summary: str = ""
    files_changed: int = 0
    absent: tuple[str, ...] = ()
    absent_artifact: bool = False  # an absent file would be among its artifacts
    vanished: tuple[str, ...] = ()  # missing files that its tools named: the agent may have removed them
    untouched: tuple[str, ...] = ()
    unknown_commits: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()

    def piece(self) -> dict[str, Any]:
        """Return the claims as a part of the receipt."""
        told = self.as_dict()
        return {name: list(value[:MOST_SHOWN]) if isinstance(value, tuple) else value for name, value in told.items()}


def claims_of(
    result: ResultFile | None,
    ground: ClaimContext,
    *,
    tracked: Callable[[], set[str]],
    unknown: Callable[[list[str]], list[str]],
) -> Claims:
    """Return the false claims in an agent's result.json.

    `tracked` returns the existing files. `unknown` returns those of some commit ids that do not exist.
    """
    if result is None:
        return Claims()
    absent, untouched = _check_files(result.files_changed, ground, tracked)
    vanished: list[str] = []
    if not ground.is_git:  # the times of a file show whether it may have changed
        vanished = [
            claim for claim in untouched if not _find_existing_forms(claim, ground) and _was_used(claim, ground)
        ]
        untouched = [claim for claim in untouched if _is_surely_old(claim, ground)]
    ids = [match[0] for each in result.commits[:MOST_CLAIMS] if (match := COMMIT.match(each.strip()))]
    return Claims(
        status=result.status,
        summary=result.summary[:LONGEST_CLAIM],
        files_changed=len(result.files_changed),
        absent=tuple(absent),
        absent_artifact=any(_is_artifact(claim, ground) for claim in absent),
        vanished=tuple(vanished),
        untouched=tuple(untouched),
        unknown_commits=tuple(unknown(ids)) if ids else (),
        unseen=tuple(_find_unseen_commands(result.tests, ground)),
    )


def _check_files(
    claimed: Iterable[str], ground: ClaimContext, tracked: Callable[[], set[str]]
) -> tuple[list[str], list[str]]:
    """Return the claimed files that do not exist, and those that are unchanged."""
    changed = {path.lower() for path in ground.changed}
    absent: list[str] = []
    untouched: list[str] = []
    there: set[str] | None = None
    for claim in list(claimed)[:MOST_CLAIMS]:
        forms = list(_list_forms(claim, ground))
        if any(_is_among(form, changed) for form in forms) or _is_elsewhere(claim, ground):
            continue
        if not forms and not _is_artifact(claim, ground):
            continue
        there = {path.lower() for path in tracked()} if there is None else there
        if any(_is_among(form, there) for form in forms) or any(_is_on_disk(form, ground) for form in forms):
            untouched.append(claim[:LONGEST_CLAIM])
        else:
            (untouched if _was_used(claim, ground) else absent).append(claim[:LONGEST_CLAIM])
    return absent, untouched


def _list_forms(claim: str, ground: ClaimContext) -> Iterator[str]:
    """Yield a claimed path as git would name it: relative to the working directory, without explanations."""
    texts = [claim.strip().strip("`'\""), *(part.strip().strip("`'\"") for part in _NOTE.split(claim))]
    for text in texts:
        path = text
        if os.path.isabs(path):
            real = os.path.normpath(path)
            inside = next((top for top in _list_tops(ground.top) if real.startswith(os.path.join(top, ""))), None)
            if inside is None:
                continue
            path = os.path.relpath(real, inside)
        path = os.path.normpath(path) if path else ""
        if path and path != "." and not path.startswith(".."):
            yield path


def _list_tops(top: str) -> tuple[str, ...]:
    return (os.path.normpath(top), os.path.realpath(top))


def _is_among(form: str, paths: set[str]) -> bool:
    """Return True if a path, folder, glob, or the end or a longer form of a path matches one of these paths."""
    form = form.lower()
    if form in paths:
        return True
    below, end = f"{form}/", f"/{form}"
    is_glob = any(char in form for char in "*?[")
    for path in paths:
        if path.startswith(below) or path.endswith(end) or form.endswith(f"/{path}") or f"{end}/" in path:
            return True
        if is_glob and matches_glob(path, form):
            return True
    return False


def _is_elsewhere(claim: str, ground: ClaimContext) -> bool:
    """Return True if git cannot show a claimed file: an artifact, an outside path, or a recent file."""
    text = claim.strip().strip("`'\"")
    path = os.path.expanduser(text)
    if os.path.isabs(path) and not any(path.startswith(os.path.join(top, "")) for top in _list_tops(ground.top)):
        return os.path.lexists(path) or not path.startswith(os.path.join(ground.artifacts, ""))
    if text.startswith("..") or "://" in text or not text:
        return True
    if os.path.lexists(os.path.join(ground.artifacts, text)):
        return True
    try:
        return os.lstat(os.path.join(ground.top, text)).st_mtime >= ground.started - 1
    except (OSError, ValueError):
        return False


def _is_artifact(claim: str, ground: ClaimContext) -> bool:
    return claim.strip().strip("`'\"").startswith(os.path.join(ground.artifacts, ""))


def _is_on_disk(form: str, ground: ClaimContext) -> bool:
    try:
        return os.path.lexists(os.path.join(ground.top, form))
    except ValueError:
        return False


def _find_existing_forms(claim: str, ground: ClaimContext) -> list[str]:
    """Return the forms of a claimed path that exist on the disk."""
    return [form for form in _list_forms(claim, ground) if _is_on_disk(form, ground)]


def _is_surely_old(claim: str, ground: ClaimContext) -> bool:
    """Return True if no tool named a claimed file, and neither it nor a folder above it changed since the start."""
    if not (ground.tells_tools and ground.stream.whole) or ground.stream.delegates or _was_used(claim, ground):
        return False
    return any(_is_old_file(os.path.join(ground.top, form), ground) for form in _find_existing_forms(claim, ground))


def _is_old_file(path: str, ground: ClaimContext) -> bool:
    try:
        times, is_file = [], stat.S_ISREG(os.lstat(path).st_mode)
        while path != ground.top and len(path) > len(ground.top):
            found = os.lstat(path)
            times += [found.st_mtime, found.st_ctime]
            path = os.path.dirname(path)  # noqa: PTH120
    except (OSError, ValueError):
        return False
    return is_file and max(times, default=ground.started) < ground.started - 1


def _was_used(claim: str, ground: ClaimContext) -> bool:
    """Return True if a tool's input named the file: a file can be created and deleted within a run."""
    name = _NOTE.split(claim.strip().strip("`'\""))[0]
    name = os.path.basename(name.rstrip("/"))  # noqa: PTH119
    return not name or ground.stream.mentions(name)


def _find_unseen_commands(tests: Iterable[dict[str, str]], ground: ClaimContext) -> Iterator[str]:
    """Yield commands that are claimed to have passed but were never run, if the stream shows every command."""
    stream = ground.stream
    if not (ground.tells_tools and stream.told and stream.whole) or stream.delegates:
        return
    if any(_SCRIPT.search(command) or OPAQUE & set(_list_program_names(command)) for command in stream.commands):
        return
    ran = {name for command in stream.commands for name in _find_started_words(command)}
    for test in list(tests)[:MOST_CLAIMS]:
        command = test.get("command", "").strip()
        if test.get("status") == "passed" and (runner := _find_runner(command)) and runner not in ran:
            yield command[:LONGEST_CLAIM]


def _find_runner(command: str) -> str:
    """Return the program of a claimed command. Return "" if the claim looks like a sentence."""
    if len(command.split()) > 15 or _SENTENCE.search(command) or "\n" in command:
        return ""
    for word in command.split():
        name = word.rpartition("/")[2]
        if "=" in word or word.startswith("-") or name in _BEFORE:
            continue
        return name if name in RUNNERS else ""
    return ""


def _find_started_words(command: str) -> list[str]:
    """Return the words of a command line, without commands that only print or search for names."""
    parts = (part for part in _PARTS.split(command) if not _ONLY_SAID.match(part))
    return [name for part in parts for name in _list_program_names(part)]


def _list_program_names(command: str) -> list[str]:
    return [word.rpartition("/")[2] for word in _WORD.findall(command)]
