"""The program `bd`: finding it, detecting its abilities, and calling it with a time limit and retries."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING, NamedTuple

from fleet.core.clock import iterate_pauses
from fleet.core.errors import StoreAway, StoreFault
from fleet.core.jsontext import decode
from fleet.core.redaction import Redactor
from fleet.descent import descents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import IO, Any

#: Longest time for one call, longest time to retry calls that found bd busy, and largest answer in bytes.
LONGEST, PATIENCE, LARGEST = 120.0, 45.0, 1 << 30
#: bd's exit code for a guard (`--if-assignee`) that did not hold.
GUARDED = 13

#: Messages of bd about another writer or a server that cannot be reached right now.
_PASSING = re.compile(
    r"serializ|deadlock|try restarting|lock wait|\b1213\b|\b1205\b|database is locked|database is read.?only|"
    r"cannot update manifest|another process|locked by|lock held|timed? ?out|connection (refused|reset)|broken pipe|"
    r"bad connection|too many connections|unexpected eof|nothing to merge|optimistic lock",
    re.IGNORECASE,
)
#: The start of fleet's own `bin/bd`, which is not the program to find.
_OURS = b"# Written by fleet"
#: Environment variables passed to bd: enough to be found, to reach its server and to use the user's language.
_ALLOWED = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|LC_\w+|TZ|TMPDIR|XDG_\w+|SSL_CERT_\w+|GIT_AUTHOR_\w+|"
    r"BEADS_DOLT_\w+|BEADS_PROXIED_\w+|BEADS_CREDENTIALS_FILE|GOGC|GOMEMLIMIT"
)
#: A bd process lives for a quarter of a second. Without garbage collection it takes a third less; memory stays limited.
_QUICK = {"GOGC": "off", "GOMEMLIMIT": "512MiB"}


class BdRefusal(StoreFault):
    """bd refused a call, and a retry would not help."""

    def __init__(self, message: str, *, guarded: bool = False) -> None:
        super().__init__(f"bd refused: {message}", hint="run `fleet bd show ID` to print the task")
        self.guarded = guarded


class Answer(NamedTuple):
    """The exit code and output of a bd call."""

    code: int
    out: str
    err: str

    @property
    def fault(self) -> str:
        """Return bd's error message, from JSON on either stream or from plain text."""
        for text in (self.out, *reversed(self.err.splitlines()), self.err):
            with contextlib.suppress(ValueError):
                found = decode(text)
                if isinstance(found, dict) and isinstance(found.get("error"), str):
                    return _redact_text("; ".join([found["error"], *_list_failures(found)])[:2000])
        lines = [line for line in self.err.splitlines() if line.startswith("Error")] or self.err.splitlines()
        return _redact_text("; ".join(lines)[:2000]) or f"exit code {self.code}"

    @property
    def is_passing(self) -> bool:
        """Return True if the same call may succeed a little later."""
        return _PASSING.search(f"{self.out[-4000:]}\n{self.err[-4000:]}") is not None


class Bd:
    """The bd program and the `.beads` folder it works on."""

    def __init__(self, program: str, folder: str, *, patience: float = PATIENCE) -> None:
        self.program = program
        self.folder = folder
        self.held: tuple[int, ...] = ()  # locked files that stay open while a call runs
        self._patience = patience

    def run(self, *argv: str, actor: str = "fleet", text: str = "") -> str:
        """Return bd's output, retrying while bd is busy. Raises Refused, or StoreAway if bd stays unreachable."""
        answer = self.ask(*argv, actor=actor, text=text)
        if answer.code:
            raise BdRefusal(answer.fault, guarded=answer.code == GUARDED)
        return answer.out

    def ask(self, *argv: str, actor: str = "fleet", text: str = "", seconds: float = 0.0) -> Answer:
        """Return bd's answer once bd is neither busy nor unreachable. Raises StoreAway.

        If `seconds` is given, it limits the call and bd is called only once.
        """
        deadline = time.monotonic() + (0.0 if seconds else self._patience)
        tries, pauses = 0, iterate_pauses(0.1, 3.0)
        while True:
            answer = self._run_once(argv, actor, text, seconds or LONGEST)
            if not answer.code or not answer.is_passing:
                return answer
            pause, tries = next(pauses), tries + 1
            if time.monotonic() + pause > deadline:
                raise make_away_error(f"`bd {argv[0]}` failed {tries} times: {answer.fault}")
            time.sleep(pause)

    def environment(self, actor: str) -> dict[str, str]:
        """Return the environment for bd, without variables that would change its output or its folder."""
        return bd_environment(os.environ, self.folder, actor)

    def _run_once(self, argv: Sequence[str], actor: str, text: str, seconds: float) -> Answer:
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
                    start_new_session=True,  # Ctrl-C is meant for the supervisor, which shuts down in order
                )
            except OSError as error:
                raise make_away_error(f"{self.program} cannot be started: {error.strerror}") from error
            code = _wait_for_exit(process, argv[0], seconds)
            return Answer(code, _read_output(out), _read_output(err))


def bd_environment(env: Mapping[str, str], folder: str, actor: str) -> dict[str, str]:
    """Return the environment for bd: allowed variables, the folder to work on and the acting user."""
    return (
        _QUICK
        | {name: value for name, value in env.items() if _ALLOWED.fullmatch(name)}
        | {
            "BEADS_DIR": folder,
            "BEADS_ACTOR": actor,
            "BD_NON_INTERACTIVE": "1",
            "BD_DISABLE_METRICS": "1",
            "GIT_CONFIG_COUNT": "1",  # otherwise bd prints a warning on each call
            "GIT_CONFIG_KEY_0": "beads.role",
            "GIT_CONFIG_VALUE_0": "maintainer",
        }
    )


def find_program(env: Mapping[str, str], *, known: str = "") -> str:
    """Return the path of the real bd: from FLEET_BD, the known path or PATH, but never fleet's own. Raises StoreAway.

    Inside an agent FLEET_BD is ignored: only the known path and PATH count.
    """
    said = "" if env.get("FLEET_RUN_TOKEN") or any(run for _, run in descents()) else env.get("FLEET_BD", "")
    folders = env.get("PATH", os.defpath).split(os.pathsep)
    for path in (said, known, *(f"{folder}/bd" for folder in folders if folder.startswith("/"))):
        if path and os.access(path, os.X_OK) and os.path.isfile(path) and not _is_ours(path):  # noqa: PTH113
            return path
    raise make_away_error("bd is not on PATH")


def make_away_error(fact: str) -> StoreAway:
    """Return the error for a bd that does not answer."""
    return StoreAway(fact, hint="install beads, or set FLEET_BD to the path of bd")


def version_of(text: str) -> str:
    """Return the version in the output of `bd version --json`, or "" if it cannot be read."""
    with contextlib.suppress(ValueError):
        found = decode(text)
        found = found.get("data", found) if isinstance(found, dict) else {}
        return str(found.get("version", ""))[:40] if isinstance(found, dict) else ""
    return ""


def is_fenced(help_text: str) -> bool:
    """Return True if bd protects tasks that others hold.

    This is read from `bd update --help`, because reported versions have been seen to be wrong.
    """
    return "--if-assignee" in help_text


def objects(text: str) -> list[dict[str, Any]]:
    """Return the JSON objects of an answer, which is a list or a single object, wrapped in "data" or not."""
    try:
        found = decode(text)
    except ValueError:
        return []
    if isinstance(found, dict):
        found = found.get("data", found)
    return [each for each in (found if isinstance(found, list) else [found]) if isinstance(each, dict)]


def _list_failures(found: dict[str, Any]) -> list[str]:
    """Return the tasks of a batch that failed, each with the reason."""
    failed = found.get("failed")
    parts = [each for each in failed if isinstance(each, dict)] if isinstance(failed, list) else []
    return [f"{each.get('id')}: {each.get('error')}" for each in parts]


def _redact_text(text: str) -> str:
    return Redactor().text(text)


def _wait_for_exit(process: subprocess.Popen[bytes], verb: str, seconds: float) -> int:
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        raise make_away_error(f"`bd {verb}` took longer than {seconds:.0f} s") from None
    finally:
        if process.returncode is None:  # also on an interrupt
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _read_output(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    if size > LARGEST:
        raise make_away_error(f"bd answered with more than {LARGEST >> 20} MiB")
    file.seek(0)
    return file.read().decode(errors="replace")


def _is_ours(path: str) -> bool:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return _OURS in file.read(200)
    except OSError:
        return False
