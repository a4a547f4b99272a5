"""The agent's own process: how it is started, and what goes into its stdin."""

# contextlib would cost as much as all of this.
# ruff: noqa: SIM105

import _signal  # type: ignore[import-not-found]  # signal imports enum: a tenth of the shim's start
import os

from fleet.launchers.shim.output import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from fleet.launchers.shim.loop import Loop

#: More than this waiting for an agent that does not read is refused.
MOST_WAITING = 16 * 1024 * 1024


class Stdin:
    """The agent's stdin: takes text at any time, passes it on as fast as the agent reads."""

    def __init__(self, text: str, *, keep: bool) -> None:
        self.agents_end, self.pipe = os.pipe()
        os.set_blocking(self.pipe, False)
        self._waiting = bytearray(_bytes(text))
        self._closing = not keep

    @property
    def open(self) -> bool:
        """Whether text may still be written."""
        return self.pipe >= 0 and not self._closing

    @property
    def busy(self) -> bool:
        """Whether something waits for the agent to read."""
        return self.pipe >= 0 and bool(self._waiting)

    def write(self, text: str) -> str:
        """Queue text; why not, if not."""
        if not self.open:
            return "stdin is closed"
        if len(self._waiting) + len(text) > MOST_WAITING:
            return "stdin is full: the agent does not read"
        self._waiting += _bytes(text)
        return ""

    def close(self) -> str:
        """End it once everything is written; why not, if not."""
        self._closing = True
        return ""

    def feed(self) -> None:
        try:
            while self.busy:
                with memoryview(self._waiting) as view:
                    written = os.write(self.pipe, view)
                del self._waiting[:written]
        except BlockingIOError:
            return
        except OSError:  # the agent closed its end
            self._closing = True
            self._waiting.clear()
        if self._closing and self.pipe >= 0:
            os.close(self.pipe)
            self.pipe = -1


class Streams:
    """What an agent reads and prints through. These hooks do nothing, for a kind that does not need them."""

    stdin: "Stdin"
    outputs: "list[Output]"

    @property
    def truncated(self) -> bool:
        """Whether more was printed than is kept."""
        return any(output.truncated for output in self.outputs)

    def in_child(self) -> None:
        """What the agent's process does first: take them for stdin, stdout and stderr."""

    def started(self) -> None:
        """The agent has them, or there is none: let go of its ends."""

    def watch(self, loop: "Loop", hung_up: "Callable[[], None]") -> None:
        """Call when nobody is at the other end any more."""

    def stopped(self, pid: int, number: int) -> None:
        """A child was stopped by this signal."""

    def place(self) -> "dict[str, str]":
        """Where the agent can be looked at."""
        return {}


class Pipes(Streams):
    """The streams of an agent without a terminal: it gets a session of its own."""

    def __init__(self, spec: "dict[str, Any]") -> None:
        self.stdin = Stdin(spec["stdin"], keep=spec["keep_stdin"])
        self.outputs = [Output("stdout", spec["stdout_cap"]), Output("stderr", spec["stderr_cap"])]
        self._ends = (self.stdin.agents_end, *(output.agents_end for output in self.outputs))

    def in_child(self) -> None:
        """Be the first of a session, and take the pipes."""
        os.setsid()
        for number, stream in enumerate(self._ends):
            os.dup2(stream, number)

    def started(self) -> None:
        """Let go of the agent's ends."""
        for stream in self._ends:
            os.close(stream)


def start(spec: "dict[str, Any]", umask: int, *in_child: "Callable[[], None]") -> int:
    """Start the agent, which does this first; OSError with the reason when it cannot be."""
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _prepare(umask, in_child)
            _become(spec)
        except BaseException as error:  # noqa: BLE001 - must never return into the shim's own code
            os.write(tell, (str(error) or type(error).__name__).encode("utf-8", "replace")[:2000])
        finally:
            os._exit(127)
    os.close(tell)
    reason = os.read(told, 2000)  # ends when exec closes the other end
    os.close(told)
    if reason:
        os.waitpid(pid, 0)
        raise OSError(reason.decode("utf-8", "replace"))
    return pid


def _prepare(umask: int, in_child: "tuple[Callable[[], None], ...]") -> None:
    for step in in_child:
        step()
    for number in range(1, _signal.NSIG):
        try:
            _signal.signal(number, _signal.SIG_DFL)  # Python ignores SIGPIPE, a shell's background job SIGINT
        except (OSError, ValueError):
            pass
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
    os.umask(umask)


def _become(spec: "dict[str, Any]") -> None:
    env = {_bytes(name): _bytes(value) for name, value in spec["env"].items()}
    argv = [_bytes(word) for word in spec["argv"]]
    try:
        os.chdir(_bytes(spec["cwd"]))
    except OSError as error:
        raise OSError(f"cannot enter {spec['cwd']}: {error.strerror}") from error
    path = env.get(b"PATH", b"/usr/local/bin:/usr/bin:/bin")
    places = [b""] if b"/" in argv[0] else [place + b"/" for place in path.split(b":") if place]
    reason = "No such file or directory"
    for place in places:
        try:
            os.execve(place + argv[0], argv, env)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            reason = str(error.strerror)
    raise OSError(f"cannot start {spec['argv'][0]}: {reason}")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
