"""The port Coder: how one command line product is started, and what its output means."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from fleet.core.record import Record
from fleet.core.result_schema import is_handed_on

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from fleet.core.event import Event
    from fleet.core.task import Task

#: How a message reaches an agent that runs: on its stdin, by an interruption and a resumed session, or not before
#: its next run.
STDIN, RESUME, NEXT_RUN = "stdin", "resume", "next run"
#: Where a session can be gone on with: in its own directory alone, or from anywhere.
SAME_CWD, ANYWHERE = "same cwd", "anywhere"
#: What a screen shows: it waits for a choice, and nothing may be typed; it works; or its input is empty.
QUESTION, BUSY, READY = "question", "busy", "ready"
#: Bytes of a text that are given as an argument; the kernel takes 131,071 for one.
LONGEST_ARGUMENT = 100_000
#: Bytes of a prompt that are typed; of a message too. A longer one is in a file.
LONGEST_TYPED = 64 * 1024
PROMPT_FILE, PROTOCOL_FILE = "prompt.md", "protocol.md"


class Order(Record):
    """What a coder is asked to do."""

    task: Task
    prompt: str
    protocol: str = ""  # how work is done here, where the prompt does not say it: for a program that takes it apart
    model: str | None = None
    session: str = ""  # go on in this session, where the coder can
    fresh: str = ""  # an id for a new session, where the coder takes one
    permissions: str = "user"  # or skip
    flags: tuple[str, ...] = ()  # the user's own options for the program
    budget_usd: float | None = None  # what it may cost, for a program that stops by itself
    folder: str = ""  # the run's own, private: where `Command.files` lie when the program starts

    @property
    def wants_result(self) -> bool:
        """Whether its last word is to be the task's result, where the program can be held to a schema."""
        return is_handed_on(self.task)

    def typed(self, *, with_protocol: bool = True) -> tuple[str, dict[str, str]]:
        """Return what is typed into a terminal once its program waits for words, and the files that belong to it.

        A prompt that is too long to be typed is in a file, and what is typed says so. Without a prompt nothing is
        typed: the agent waits for a person, and how work is done here alone would set it to work.
        """
        text = self._whole(with_protocol=with_protocol)
        if text.lstrip().startswith("!"):  # most programs take what follows for a command of a shell, and run it
            text = f"Your prompt:\n\n{text}"
        if not self.folder or len(text.encode("utf-8", "replace")) <= LONGEST_TYPED:
            return text, {}
        return self.filed(with_protocol=with_protocol)

    def filed(self, *, with_protocol: bool = True) -> tuple[str, dict[str, str]]:
        """Return a sentence that names the file of the prompt, and the file. Without a prompt there is neither."""
        text, place = self._whole(with_protocol=with_protocol), f"{self.folder}/{PROMPT_FILE}"
        if not text:
            return "", {}
        return f"Read the whole of the file {place}: it is your prompt. Do what it says.", {PROMPT_FILE: text}

    def _whole(self, *, with_protocol: bool) -> str:
        parts = (self.prompt, self.protocol if with_protocol and self.prompt else "")
        return "\n\n---\n\n".join(part for part in parts if part).replace("\0", "")


class Command(Record):
    """How a coder's program is started. Secrets and prompts stay out of argv: other users can read it.

    Without a screen the prompt goes in by stdin or a file; into a terminal it is typed.
    """

    argv: tuple[str, ...]
    env: dict[str, str] = {}  # noqa: RUF012
    stdin: str = ""
    keep_stdin: bool = False  # more may be written while it runs
    typed: str = ""  # into its terminal, once its screen is READY
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
    #: Files of a project from which it runs commands, or lets them be run, without asking: globs below the directory of
    #: its work and those above. `a/**` is every file below `a`. None: nobody said, so those of all coders count.
    project_files: tuple[str, ...] | None = None
    #: Whether its stream ends with a word of its own; one that has none must hand in to be believed.
    tells_result: bool = True
    #: Whether that word counts only together with exit code 0: where it ends a step, and more could have followed.
    result_needs_exit_0: bool = False
    #: Whether its stream tells of each tool it uses: then one that used none did nothing.
    tells_tools: bool = True
    tells_tokens: bool = True
    tells_cost: bool = False
    tells_context: bool = False
    #: Whether a session's file tells where a turn ends; else only a screen that is READY shows it.
    tells_turns: bool = True
    #: Whether it tells the cost, where the stream does.
    session_tells_cost: bool = True
    #: Names of models that stand for another, which it reports when it begins; none named is one of them.
    short_names: tuple[str, ...] = ()
    #: STDIN, RESUME or NEXT_RUN.
    steering: str = NEXT_RUN
    #: SAME_CWD, ANYWHERE, or empty where a session cannot be gone on with.
    resumes: str = ""

    def command(self, order: Order) -> Command:
        """The program, its environment beyond the agent's own, and what it reads."""
        raise NotImplementedError

    def effort(self, level: str) -> tuple[str, ...]:
        """The options by which its model thinks that hard; none where it has no such option."""
        return ()

    def parse(self, line: str) -> Iterable[Event]:
        """Any number of events from one line of output. A line it does not understand gives none."""
        raise NotImplementedError

    def terminal(self, order: Order) -> Command | None:
        """How its program is started on a screen, and the prompt to type there; none where it has no screen."""
        return None

    @property
    def has_screen(self) -> bool:
        return type(self).terminal is not Coder.terminal

    def look(self, screen: str) -> str:
        """What a captured screen, as plain text, shows: QUESTION, BUSY, READY, or nothing where that is not clear.

        It is not clear while its input holds words that were not sent: what is typed then would be added to them. So
        a message is typed at BUSY or READY, Enter follows once neither is shown, and it is sent once one is again.
        """
        return ""

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

    def recent_sessions(self, cwd: str, env: Mapping[str, str]) -> str:
        """A glob of the files among which a session is found whose id is not known beforehand.

        Whoever began it reads the first line of those that are new, and asks `session_of`.
        """
        return ""

    def session_of(self, first_line: str) -> tuple[str, str] | None:
        """The session that a file of `recent_sessions` keeps, and the directory it works in; none for another file."""
        return None

    def parse_session(self, line: str) -> Iterable[Event]:
        """All events of a terminal's agent, from a line of the file that `transcript` names.

        What somebody said to it is DELIVERED, the prompt too. RESULT is the end of a turn: it waits for what is said
        next, and what is said begins another turn. `SESSION_STARTED` may come again with each turn.
        """
        return ()

    def answered(self, folder: str, cwd: str, env: Mapping[str, str]) -> dict[str, dict[str, Any]]:
        """What an account's own folder must hold so that no dialog stands before an agent's work in a directory.

        By the path within the folder: what is to be merged into that file, JSON or TOML by its name.
        """
        return {}

    def trusted(self, folder: str) -> dict[str, dict[str, Any]]:
        """What the files in `config_folder` must hold so that it trusts a directory and those below, as in `answered`.

        Empty where it asks no such question, or cannot be answered so.
        """
        return {}

    def config_folder(self, env: Mapping[str, str]) -> str:
        """Where the files of `trusted` lie for the login that this environment means; empty where there are none."""
        return ""

    def message(self, text: str) -> str:
        """What to write to the stdin of a running agent to say this; with the line's end. For STDIN."""
        return ""

    def interruption(self) -> str:
        """What to write to the stdin of a running agent so that it stops what it does. For STDIN."""
        return ""
