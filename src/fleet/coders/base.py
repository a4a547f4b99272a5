"""The Coder port: how fleet starts a command line product and interprets its output."""

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

#: Ways to send a message to a running agent: on stdin, by an interruption and a resumed session, or at its next run.
STDIN, RESUME, NEXT_RUN = "stdin", "resume", "next run"
#: Where a session can be resumed: only in its own directory, or in any directory.
SAME_CWD, ANYWHERE = "same cwd", "anywhere"
#: What a screen shows: a choice (type nothing then), an agent at work, or an empty input.
QUESTION, BUSY, READY = "question", "busy", "ready"
#: Bytes of text passed as one argument. The kernel accepts 131,071.
LONGEST_ARGUMENT = 100_000
#: Bytes of a prompt or a message typed into a terminal. A longer text goes into a file.
LONGEST_TYPED = 64 * 1024
PROMPT_FILE, PROTOCOL_FILE = "prompt.md", "protocol.md"


class Order(Record):
    """A run's request to a coder."""

    task: Task
    prompt: str
    protocol: str = ""  # fleet's working rules if the prompt omits them, for programs that take them separately
    model: str | None = None
    session: str = ""  # the session to resume, if the coder can
    fresh: str = ""  # the id for a new session, if the coder accepts one
    permissions: str = "user"  # or "skip"
    trusted: str = ""  # a worktree of fleet; the user agreed that the program trusts it
    flags: tuple[str, ...] = ()  # the user's own options for the program
    budget_usd: float | None = None  # cost limit, for a program that enforces one itself
    folder: str = ""  # the run's private folder; it holds `Command.files` when the program starts

    @property
    def wants_result(self) -> bool:
        """Return True if the agent's final message is to be the task's result.

        Only for programs that support a schema.
        """
        return is_handed_on(self.task)

    def typed(self, *, with_protocol: bool = True) -> tuple[str, dict[str, str]]:
        """Return the text to type into a terminal that is ready for input, and the files that belong to it.

        If the prompt is too long to be typed, a file holds it and the typed text names the file. If the prompt is
        empty, nothing is typed, because the protocol alone would set the agent to work.
        """
        text = self._whole(with_protocol=with_protocol)
        if text.lstrip().startswith("!"):  # most programs run the text after "!" as a shell command
            text = f"Your prompt:\n\n{text}"
        if not self.folder or len(text.encode("utf-8", "replace")) <= LONGEST_TYPED:
            return text, {}
        return self.filed(with_protocol=with_protocol)

    def filed(self, *, with_protocol: bool = True) -> tuple[str, dict[str, str]]:
        """Return a sentence that names the prompt's file, and that file. Both are empty if there is no prompt."""
        text, place = self._whole(with_protocol=with_protocol), f"{self.folder}/{PROMPT_FILE}"
        if not text:
            return "", {}
        return f"Read the whole of the file {place}: it is your prompt. Do what it says.", {PROMPT_FILE: text}

    def _whole(self, *, with_protocol: bool) -> str:
        parts = (self.prompt, self.protocol if with_protocol and self.prompt else "")
        return "\n\n---\n\n".join(part for part in parts if part).replace("\0", "")


class Command(Record):
    """A command that starts a coder's program.

    Secrets and prompts stay out of argv because other users can read it. Without a screen the program gets its prompt
    through stdin or a file. In a terminal fleet types the prompt.
    """

    argv: tuple[str, ...]
    env: dict[str, str] = {}  # noqa: RUF012
    stdin: str = ""
    keep_stdin: bool = False  # stdin stays open for more input while the program runs
    typed: str = ""  # typed into the terminal when its screen is READY
    session: str = ""  # the id of the session it starts, if known before the program reports it
    files: dict[str, str] = {}  # noqa: RUF012 - contents by name; written to the order's folder before the start


class Coder:
    """A command line product.

    All methods are pure. Subclasses must define `command` and `parse`; all others have defaults.
    """

    name: str
    #: The program that must be on PATH. Empty if the coder brings its own program.
    program: str = ""
    #: Signals that ask the program to stop, in order. Processes that survive them are killed.
    stop_steps: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM)
    #: Globs of the user's environment variables that the program reads. Its agents get no others.
    reads_env: tuple[str, ...] = ()
    #: Project files that make the program run commands, or allow commands, without asking. Globs relative to the
    #: working directory and to the directories above it. `a/**` matches every file below `a`. If None, fleet assumes
    #: the files of all coders.
    project_files: tuple[str, ...] | None = None
    #: The stream ends with a final result. If False, the agent must hand in its result to be believed.
    tells_result: bool = True
    #: That result counts only with exit code 0, because it ends a step and more steps could have followed.
    result_needs_exit_0: bool = False
    #: The stream reports each tool use, so a run without any did nothing.
    tells_tools: bool = True
    tells_tokens: bool = True
    tells_cost: bool = False
    tells_context: bool = False
    #: The session's file reports the cost if the stream does.
    session_tells_cost: bool = True
    #: Model aliases. The program reports the full name when it starts. "" means that no model was named.
    short_names: tuple[str, ...] = ()
    #: STDIN, RESUME or NEXT_RUN.
    steering: str = NEXT_RUN
    #: The program asks whether to trust a directory, and an option for `Order.trusted` answers that for one run.
    trusts_by_option: bool = False
    #: SAME_CWD, ANYWHERE, or empty if a session cannot be resumed.
    resumes: str = ""

    def command(self, order: Order) -> Command:
        """Return the program, its additional environment variables and its input."""
        raise NotImplementedError

    def effort(self, level: str) -> tuple[str, ...]:
        """Return the options that set the model's reasoning effort. Empty if the program has none."""
        return ()

    def parse(self, line: str) -> Iterable[Event]:
        """Return the events of one line of output. A line that the coder does not understand has none."""
        raise NotImplementedError

    def terminal(self, order: Order) -> Command | None:
        """Return how to start the program on a screen, and the prompt to type. Return None if it has no screen."""
        return None

    @property
    def has_screen(self) -> bool:
        return type(self).terminal is not Coder.terminal

    def look(self, screen: str) -> str:
        """Return what a captured plain-text screen shows: QUESTION, BUSY, READY, or "" if that is unclear.

        The result is "" while the input holds unsent words, because typed text would be appended to them. So fleet
        types a message at BUSY or READY and presses Enter once the screen shows neither. The message is sent when the
        screen shows BUSY or READY again.
        """
        return ""

    def explain(self, status: int | None, stderr: str) -> Event | None:
        """Return the limit or the error behind an exit without a result, judged by exit code and the end of stderr.

        Return None if there is neither.
        """
        return None

    def window(self, model: str) -> int | None:
        """Return how many tokens fit into a model's context, judged by its name.

        The stream's own figure has priority.
        """
        return None

    def config_env(self, folder: str) -> dict[str, str]:
        """Return the variables that keep login, settings and sessions in a folder per account."""
        return {}

    def login_signs(self, env: Mapping[str, str]) -> tuple[str, ...]:
        """Return variables (NAME) and files (/path). Any of them means that the user is logged in.

        Empty if the program needs no login.
        """
        return ()

    def transcript(self, session: str, cwd: str, env: Mapping[str, str]) -> str:
        """Return a glob of the file that holds a session. Empty if that file has nothing to add."""
        return ""

    def parse_transcript(self, line: str) -> Iterable[Event]:
        """Return the events of a line of that file that the stream does not report."""
        return ()

    def recent_sessions(self, cwd: str, env: Mapping[str, str]) -> str:
        """Return a glob of the files to search for a session whose id is not known in advance.

        The caller reads the first line of each new file and passes it to `session_of`.
        """
        return ""

    def session_of(self, first_line: str) -> tuple[str, str] | None:
        """Return the session and the working directory of a file of `recent_sessions`. Return None for other files."""
        return None

    def parse_session(self, line: str) -> Iterable[Event]:
        """Return all events of a terminal's agent from a line of the file that `transcript` names.

        Every message to the agent, also the prompt, is a DELIVERED event. RESULT ends a turn. The agent then waits for
        the next message, which starts another turn. `SESSION_STARTED` may repeat with each turn.
        """
        return ()

    def answered(self, folder: str, cwd: str, env: Mapping[str, str]) -> dict[str, dict[str, Any]]:
        """Return the settings that keep dialogs from blocking an agent's work in `cwd`.

        The keys are paths within the account's folder. Each value is merged into that file, JSON or TOML by its name.
        """
        return {}

    def trusted(self, folder: str) -> dict[str, dict[str, Any]]:
        """Return the settings for `config_folder` that make the coder trust a directory and those below it.

        The format is that of `answered`. Empty if the coder asks no such question or fleet cannot answer it this way.
        """
        return {}

    def config_folder(self, env: Mapping[str, str]) -> str:
        """Return the folder that holds the files of `trusted` for the login in `env`. Empty if there are none."""
        return ""

    def message(self, text: str) -> str:
        """Return the stdin input that sends `text` to a running agent, with a final newline. For STDIN."""
        return ""

    def interruption(self) -> str:
        """Return the stdin input that interrupts a running agent. For STDIN."""
        return ""
