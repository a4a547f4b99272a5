"""The program `bd`: where it is, which family it is of, and asking it with a time limit, again when it was busy."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING, NamedTuple

from fleet.core.clock import growing_pauses
from fleet.core.errors import StoreAway, StoreFault
from fleet.core.jsontext import decode
from fleet.core.redaction import Redactor
from fleet.descent import descents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import IO, Any

#: How long one call may take, how long calls that found bd busy are repeated, and how much one may answer.
LONGEST, PATIENCE, LARGEST = 120.0, 45.0, 1 << 30
#: The exit code with which bd says that a guard (`--if-assignee`) did not hold.
GUARDED = 13

#: What bd says when somebody else is writing, or its server cannot be reached just now.
_PASSING = re.compile(
    r"serializ|deadlock|try restarting|lock wait|\b1213\b|\b1205\b|database is locked|database is read.?only|"
    r"cannot update manifest|another process|locked by|lock held|timed? ?out|connection (refused|reset)|broken pipe|"
    r"bad connection|too many connections|unexpected eof|nothing to merge|optimistic lock",
    re.IGNORECASE,
)
#: The beginning of what fleet writes as `bin/bd`: not the program that is looked for.
_OURS = b"# Written by fleet"
#: What of the environment bd is given: enough to be found, to find its server, and to speak the user's language.
_ALLOWED = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|LC_\w+|TZ|TMPDIR|XDG_\w+|SSL_CERT_\w+|GIT_AUTHOR_\w+|"
    r"BEADS_DOLT_\w+|BEADS_PROXIED_\w+|BEADS_CREDENTIALS_FILE|GOGC|GOMEMLIMIT"
)
#: A bd lives for a quarter of a second: without collecting its garbage it takes a third less, and memory has a bound.
_QUICK = {"GOGC": "off", "GOMEMLIMIT": "512MiB"}


class Refused(StoreFault):
    """bd would not do it, and would not another time."""

    def __init__(self, message: str, *, guarded: bool = False) -> None:
        super().__init__(f"bd refused: {message}", hint="`fleet bd show ID` tells what bd knows of a task.")
        self.guarded = guarded


class Answer(NamedTuple):
    """How a call of bd ended."""

    code: int
    out: str
    err: str

    @property
    def fault(self) -> str:
        """What went wrong, in bd's words: in JSON on either stream, or as text."""
        for text in (self.out, *reversed(self.err.splitlines()), self.err):
            with contextlib.suppress(ValueError):
                found = decode(text)
                if isinstance(found, dict) and isinstance(found.get("error"), str):
                    return _shown("; ".join([found["error"], *_failed(found)])[:2000])
        lines = [line for line in self.err.splitlines() if line.startswith("Error")] or self.err.splitlines()
        return _shown("; ".join(lines)[:2000]) or f"exit code {self.code}"

    @property
    def is_passing(self) -> bool:
        """Whether the same call may well succeed a little later."""
        return _PASSING.search(f"{self.out[-4000:]}\n{self.err[-4000:]}") is not None


class Bd:
    """The bd program and the `.beads` folder it works on."""

    def __init__(self, program: str, folder: str, *, patience: float = PATIENCE) -> None:
        self.program = program
        self.folder = folder
        self.held: tuple[int, ...] = ()  # files that stay open, and locked, as long as a call lasts
        self._patience = patience

    def run(self, *argv: str, actor: str = "fleet", text: str = "") -> str:
        """What bd prints; busy ones are asked again. Raises Refused, and StoreAway when it stays out of reach."""
        answer = self.ask(*argv, actor=actor, text=text)
        if answer.code:
            raise Refused(answer.fault, guarded=answer.code == GUARDED)
        return answer.out

    def ask(self, *argv: str, actor: str = "fleet", text: str = "", seconds: float = 0.0) -> Answer:
        """How bd ends, once it is neither busy nor away; with a limit of its own it is asked once. Raises StoreAway."""
        deadline = time.monotonic() + (0.0 if seconds else self._patience)
        tries, pauses = 0, growing_pauses(0.1, 3.0)
        while True:
            answer = self._once(argv, actor, text, seconds or LONGEST)
            if not answer.code or not answer.is_passing:
                return answer
            pause, tries = next(pauses), tries + 1
            if time.monotonic() + pause > deadline:
                raise away(f"`bd {argv[0]}` failed {tries} times: {answer.fault}")
            time.sleep(pause)

    def environment(self, actor: str) -> dict[str, str]:
        """What bd sees of ours: nothing that would make it speak otherwise, or work elsewhere."""
        return bd_environment(os.environ, self.folder, actor)

    def _once(self, argv: Sequence[str], actor: str, text: str, seconds: float) -> Answer:
        command = [self.program, *argv]
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as said:
            said.write(text.encode())
            said.seek(0)
            try:
                process = subprocess.Popen(
                    command,
                    stdin=said,
                    stdout=out,
                    stderr=err,
                    cwd=os.path.dirname(self.folder),  # noqa: PTH120 - homes are plain strings
                    env=self.environment(actor),
                    pass_fds=self.held,
                    start_new_session=True,  # Ctrl-C is for the supervisor, which ends in order
                )
            except OSError as error:
                raise away(f"{self.program} cannot be started: {error.strerror}") from error
            code = _ended(process, argv[0], seconds)
            return Answer(code, _read(out), _read(err))


def bd_environment(env: Mapping[str, str], folder: str, actor: str) -> dict[str, str]:
    """The environment for bd: an allow-list, the folder it is to work on, and who acts."""
    return (
        _QUICK
        | {name: value for name, value in env.items() if _ALLOWED.fullmatch(name)}
        | {
            "BEADS_DIR": folder,
            "BEADS_ACTOR": actor,
            "BD_NON_INTERACTIVE": "1",
            "BD_DISABLE_METRICS": "1",
            "GIT_CONFIG_COUNT": "1",  # else bd warns with each call
            "GIT_CONFIG_KEY_0": "beads.role",
            "GIT_CONFIG_VALUE_0": "maintainer",
        }
    )


def find_program(env: Mapping[str, str], *, known: str = "") -> str:
    """Where the real bd is: FLEET_BD, where it was before, or on PATH, but never fleet's own. Raises StoreAway.

    An agent does not say where: only what was known before its run counts, and else PATH.
    """
    said = "" if env.get("FLEET_RUN_TOKEN") or any(run for _, run in descents()) else env.get("FLEET_BD", "")
    folders = env.get("PATH", os.defpath).split(os.pathsep)
    for path in (said, known, *(f"{folder}/bd" for folder in folders if folder.startswith("/"))):
        if path and os.access(path, os.X_OK) and os.path.isfile(path) and not _is_ours(path):  # noqa: PTH113
            return path
    raise away("there is no bd on PATH")


def away(fact: str) -> StoreAway:
    """The error for a bd that does not answer."""
    return StoreAway(fact, hint="install beads, or say where bd is with FLEET_BD; `fleet doctor` tells more.")


def version_of(text: str) -> str:
    """The version that `bd version --json` tells; empty for what is not understood."""
    with contextlib.suppress(ValueError):
        found = decode(text)
        found = found.get("data", found) if isinstance(found, dict) else {}
        return str(found.get("version", ""))[:40] if isinstance(found, dict) else ""
    return ""


def is_fenced(help_text: str) -> bool:
    """Whether a bd guards what others hold, by what `bd update --help` offers: versions have been seen to lie."""
    return "--if-assignee" in help_text


def objects(text: str) -> list[dict[str, Any]]:
    """The JSON objects of an answer: a list of them, or one, wrapped or not."""
    try:
        found = decode(text)
    except ValueError:
        return []
    if isinstance(found, dict):
        found = found.get("data", found)
    return [each for each in (found if isinstance(found, list) else [found]) if isinstance(each, dict)]


def _failed(found: dict[str, Any]) -> list[str]:
    """Which tasks of several it was, and why."""
    failed = found.get("failed")
    parts = [each for each in failed if isinstance(each, dict)] if isinstance(failed, list) else []
    return [f"{each.get('id')}: {each.get('error')}" for each in parts]


def _shown(text: str) -> str:
    return Redactor().text(text)


def _ended(process: subprocess.Popen[bytes], verb: str, seconds: float) -> int:
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        raise away(f"`bd {verb}` took longer than {seconds:.0f} s") from None
    finally:
        if process.returncode is None:  # also when we are interrupted
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _read(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    if size > LARGEST:
        raise away(f"bd answered with more than {LARGEST >> 20} MiB")
    file.seek(0)
    return file.read().decode(errors="replace")


def _is_ours(path: str) -> bool:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return _OURS in file.read(200)
    except OSError:
        return False
