"""The agent's own process: how it is started, and what goes into its stdin."""

# contextlib would cost as much as all of this.
# ruff: noqa: SIM105

import _signal  # type: ignore[import-not-found]  # signal imports enum: a tenth of the shim's start
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

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

    def close(self) -> None:
        """End it once everything is written."""
        self._closing = True

    def feed(self) -> None:
        """Pass on what fits."""
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


def start(spec: "dict[str, Any]", streams: tuple[int, int, int], umask: int, in_child: "Callable[[], None]") -> int:
    """Start the agent with these three streams in a session of its own; OSError with the reason when it cannot be."""
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _prepare(streams, umask, in_child)
            _become(spec)
        except BaseException as error:  # noqa: BLE001 - must never return into the shim's own code
            os.write(tell, (str(error) or type(error).__name__).encode("utf-8", "replace")[:2000])
        finally:
            os._exit(127)
    os.close(tell)
    reason = os.read(told, 2000)  # ends when exec closes the other end
    os.close(told)
    for stream in streams:
        os.close(stream)
    if reason:
        os.waitpid(pid, 0)
        raise OSError(reason.decode("utf-8", "replace"))
    return pid


def _prepare(streams: tuple[int, int, int], umask: int, in_child: "Callable[[], None]") -> None:
    os.setsid()
    in_child()
    for number in range(1, _signal.NSIG):
        try:
            _signal.signal(number, _signal.SIG_DFL)  # Python ignores SIGPIPE, a shell's background job SIGINT
        except (OSError, ValueError):
            pass
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
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
