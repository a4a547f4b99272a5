"""The port Coder: how one command line product is started, and what its output means."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from fleet.core.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fleet.core.event import Event
    from fleet.core.task import Task

#: How a message reaches an agent that runs: on its stdin, by an interruption and a resumed session, or not before
#: its next run.
STDIN, RESUME, NEXT_RUN = "stdin", "resume", "next run"
#: Where a session can be gone on with: in its own directory alone, or from anywhere.
SAME_CWD, ANYWHERE = "same cwd", "anywhere"


class Order(Record):
    """What a coder is asked to do."""

    task: Task
    prompt: str
    model: str | None = None
    session: str = ""  # go on in this session, where the coder can
    fresh: str = ""  # an id for a new session, where the coder takes one
    permissions: str = "user"  # or skip
    flags: tuple[str, ...] = ()  # the user's own options for the program
    folder: str = ""  # the run's own, private: where `Command.files` lie when the program starts


class Command(Record):
    """How a coder's program is started. Secrets stay out of argv; the prompt goes in by stdin or a file."""

    argv: tuple[str, ...]
    env: dict[str, str] = {}  # noqa: RUF012
    stdin: str = ""
    keep_stdin: bool = False  # more may be written while it runs
    session: str = ""  # the session it begins, where that is known before it says so
    files: dict[str, str] = {}  # noqa: RUF012 - by name, what lies in the order's folder when it starts


class Coder:
    """One command line product. Everything here is pure. `command` and `parse` must be there, the rest has defaults."""

    name: str
    #: What must be on PATH; empty where the program comes along with the coder.
    program: str = ""
    #: How to ask it to stop, in order; what is left after that is killed.
    stop_steps: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM)
    #: Variables of the user's environment that it reads, as globs; the others stay out of its agents.
    reads_env: tuple[str, ...] = ()
    #: Whether its stream ends with a word of its own; one that has none must hand in to be believed.
    tells_result: bool = True
    #: Whether that word counts only together with exit code 0: where it ends a step, and more could have followed.
    result_needs_exit_0: bool = False
    tells_tokens: bool = True
    tells_cost: bool = False
    tells_context: bool = False
    #: STDIN, RESUME or NEXT_RUN.
    steering: str = NEXT_RUN
    #: SAME_CWD, ANYWHERE, or empty where a session cannot be gone on with.
    resumes: str = ""

    def command(self, order: Order) -> Command:
        """The program, its environment beyond the agent's own, and what it reads."""
        raise NotImplementedError

    def parse(self, line: str) -> Iterable[Event]:
        """Any number of events from one line of output. A line it does not understand gives none."""
        raise NotImplementedError

    def explain(self, status: int | None, stderr: str) -> Event | None:
        """What an end without a last word means, by exit code and the end of stderr: a limit, an error, or nothing."""
        return None

    def window(self, model: str) -> int | None:
        """How many tokens fit into the context of a model, as far as its name tells; the stream knows better."""
        return None

    def config_env(self, folder: str) -> dict[str, str]:
        """The variables that make it keep its login, settings and sessions in a folder of an account's own."""
        return {}

    def login_signs(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """Variables (NAME) and files (/path), any of which means that somebody is logged in. None: no login needed."""
        return ()

    def transcript(self, session: str, cwd: str, env: Mapping[str, str]) -> str:
        """A glob of the file in which it keeps a session; empty where there is none worth looking at."""
        return ""

    def parse_transcript(self, line: str) -> Iterable[Event]:
        """Events from a line of that file: only what the stream does not tell."""
        return ()

    def message(self, text: str) -> str:
        """What to write to the stdin of a running agent to say this; with the line's end. For STDIN."""
        return ""

    def interruption(self) -> str:
        """What to write to the stdin of a running agent so that it stops what it does. For STDIN."""
        return ""
