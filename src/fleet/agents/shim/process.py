"""The agent's process: its start, and its stdin."""

# contextlib would cost as much start time as the rest.
# ruff: noqa: SIM105

import _signal  # type: ignore[import-not-found]  # importing signal would load enum: a tenth of the shim's start
import os

from fleet.agents.shim.output import OutputPipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from fleet.agents.shim.loop import DescriptorLoop

#: If more bytes wait for an agent that does not read, further text is refused.
MOST_WAITING = 16 * 1024 * 1024


class Stdin:
    """The agent's stdin. It accepts text at any time and forwards it as fast as the agent reads."""

    def __init__(self, text: str, *, keep: bool) -> None:
        self.agents_end, self.pipe = os.pipe()
        os.set_blocking(self.pipe, False)
        self._waiting = bytearray(_bytes(text))
        self._closing = not keep

    @property
    def open(self) -> bool:
        """Return True if text may still be written."""
        return self.pipe >= 0 and not self._closing

    @property
    def busy(self) -> bool:
        """Return True if text waits for the agent to read it."""
        return self.pipe >= 0 and bool(self._waiting)

    def write(self, text: str) -> str:
        """Queue text. Return the reason if it is refused, else an empty string."""
        if not self.open:
            return "stdin is closed"
        if len(self._waiting) + len(text) > MOST_WAITING:
            return "stdin is full: the agent does not read"
        self._waiting += _bytes(text)
        return ""

    def close(self) -> str:
        """Close stdin once everything is written. Return the reason if that is refused, else an empty string."""
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
    """An agent's input and output. The default hooks do nothing."""

    stdin: "Stdin"
    outputs: "list[OutputPipe]"

    @property
    def truncated(self) -> bool:
        """Return True if the agent printed more than is kept."""
        return any(output.truncated for output in self.outputs)

    def in_child(self) -> None:
        """Make these the process's stdin, stdout and stderr. Runs in the agent's process."""

    def started(self) -> None:
        """Close the agent's ends, after the agent has them or its start has failed."""

    def watch(self, loop: "DescriptorLoop", hung_up: "Callable[[], None]") -> None:
        """Call `hung_up` when the other end is gone."""

    def stopped(self, pid: int, number: int) -> None:
        """React to a child that was stopped by signal `number`."""

    def place(self) -> "dict[str, str]":
        """Return where a user can view the agent."""
        return {}


class Pipes(Streams):
    """The streams of an agent without a terminal. The agent gets its own session."""

    def __init__(self, spec: "dict[str, Any]") -> None:
        self.stdin = Stdin(spec["stdin"], keep=spec["keep_stdin"])
        self.outputs = [OutputPipe("stdout", spec["stdout_cap"]), OutputPipe("stderr", spec["stderr_cap"])]
        self._ends = (self.stdin.agents_end, *(output.agents_end for output in self.outputs))

    def in_child(self) -> None:
        """Become a session leader and take the pipes."""
        os.setsid()
        for number, stream in enumerate(self._ends):
            os.dup2(stream, number)

    def started(self) -> None:
        """Close the agent's ends."""
        for stream in self._ends:
            os.close(stream)


def start(spec: "dict[str, Any]", umask: int, *in_child: "Callable[[], None]") -> int:
    """Start the agent and return its process id. The child first runs `in_child`.

    Raises OSError with the reason if the agent cannot be started.
    """
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
