"""One agent from start to end: forward its output, answer requests, leave nothing of it behind."""

import _signal  # type: ignore[import-not-found]  # see process.py
import os
import sys
import time

from fleet.agents.shim.control import Control, TreeDeadline
from fleet.agents.shim.loop import DescriptorLoop
from fleet.agents.shim.process import start
from fleet.agents.shim.record import instant, write_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from fleet.agents.shim.output import OutputPipe
    from fleet.agents.shim.process import Streams
    from fleet.agents.shim.sandbox import Sandbox
    from fleet.agents.shim.tree import ProcessTree

#: Minimum time between messages that report growing output.
GROWTH_SECONDS = 0.05
#: Maximum delays of the end by unkillable processes, an outside writer, or a full disk.
UNKILLABLE_SECONDS, DRAIN_SECONDS, RECORD_SECONDS = 5.0, 1.0, 60.0
#: How long an agent may live after its terminal is gone.
HANGUP_SECONDS = 2.0
#: How often the processes of a tree with a process limit are counted.
COUNT_SECONDS = 0.25
#: Minimum time over which a share of a core is measured: CPU time is counted in hundredths of a second.
SHARE_SECONDS = 1.0


class Shim:
    """One agent from its start to its end."""

    def __init__(
        self,
        spec: "dict[str, Any]",
        tree: "ProcessTree",
        umask: int,
        streams: "Streams",
        apart: "Sandbox | None" = None,
    ) -> None:
        self._tree, self._apart = tree, apart
        self._loop = DescriptorLoop()
        self._started, self._began = time.time(), time.monotonic()
        self._agent = 0
        self._status: int | None = None  # as returned by wait()
        self._error = ""
        self._cpu, self._peak = 0.0, 0
        # Two moments, each with the CPU seconds until then. Shares are measured from the earlier one.
        self._marks = ((self._began, 0.0), (self._began, 0.0))
        # A tree that has not ended by then is killed.
        self._kill_at: float | None = self._began + spec["seconds"] if spec.get("seconds") else None
        self._count_at = time.monotonic() if apart and apart.most else None
        self._crowded = False  # it exceeded its process limit
        self._streams, self._stdin = streams, streams.stdin
        self._outputs = streams.outputs
        self._told, self._tell_at = self._sizes(), 0.0
        self._watch_children()
        self._deadline = TreeDeadline(tree)
        self._control = Control(self._loop, self._answer)
        self._start(spec, umask)
        if spec.get("deadline"):
            self._deadline.put_off(*spec["deadline"])

    def serve(self) -> int:
        """Work until the agent has ended and its record is written. Return its exit code as a shell reports it."""
        while self._status is None and not self._error:
            self._loop.turn(self._pause())
            self._tell_growth()
            self._count()
            self._deadline.keep()
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                self._tree.kill(self._agent)
                self._kill_at += UNKILLABLE_SECONDS
        survivors = self._clear()
        record = self._record(survivors)
        give_up = time.monotonic() + RECORD_SECONDS
        while not write_record(record) and time.monotonic() < give_up:
            self._loop.turn(1.0)
        self._control.tell({"ended": record})
        self._control.close()
        return 127 if self._error else 128 + record["signal"] if record["signal"] else int(record["status"])

    def _count(self) -> None:
        """Kill a tree that exceeds its process limit."""
        if self._apart and self._count_at is not None and time.monotonic() >= self._count_at:
            self._count_at = time.monotonic() + COUNT_SECONDS
            if len(self._tree.others()) > self._apart.most:
                self._crowded = True
                self._tree.kill(self._agent)

    def _start(self, spec: "dict[str, Any]", umask: int) -> None:
        apart = [self._apart.in_child] if self._apart else []
        try:
            self._agent = start(spec, umask, self._streams.in_child, *apart, self._tree.in_child)
        except OSError as error:
            self._error = str(error) or "cannot be started"
            return
        finally:
            self._streams.started()
            if self._apart:
                self._apart.hear()
        for output in self._outputs:
            self._loop.read(output.pipe, lambda output=output: self._take(output))  # type: ignore[misc]
        self._feed()
        self._streams.watch(self._loop, self._hung_up)

    def _hung_up(self) -> None:
        """Give an agent whose terminal is gone a short time to finish, then kill it."""
        self._kill_at = time.monotonic() + HANGUP_SECONDS
        if self._deadline.is_frozen:
            self._kill_at = time.monotonic()  # it must not resume, not even to finish
            return
        for number in (_signal.SIGHUP, _signal.SIGCONT):
            self._answer({"do": "signal", "number": number})  # an agent that we may not signal is killed later

    def _take(self, output: "OutputPipe") -> None:
        if output.take() is None:
            self._loop.forget(output.pipe)

    def _feed(self) -> None:
        pipe = self._stdin.pipe
        if pipe < 0:
            return
        # The order matters: a descriptor must be forgotten before it is closed.
        self._loop.forget(pipe)
        self._stdin.feed()
        if self._stdin.busy:
            self._loop.write(pipe, self._feed)

    def _watch_children(self) -> None:
        woken, wake = os.pipe()
        os.set_blocking(woken, False)
        os.set_blocking(wake, False)
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        _signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

        def awake() -> None:
            os.read(woken, 4096)
            self._reap()

        self._loop.read(woken, awake)

    def _reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if os.WIFSTOPPED(status):
                self._streams.stopped(pid, os.WSTOPSIG(status))
                continue
            self._cpu += usage.ru_utime + usage.ru_stime
            self._peak = max(self._peak, usage.ru_maxrss)
            if pid == self._agent:
                self._status = status

    def _pause(self) -> float | None:
        """Return the seconds until the next scheduled work. Return None if none is scheduled."""
        moments = [output.retry_at for output in self._outputs if output.waiting]
        if self._told != self._sizes():
            moments.append(self._tell_at)
        moments += [moment for moment in (self._kill_at, self._count_at) if moment is not None]
        pauses = [max(0.0, min(moments) - time.monotonic())] if moments else []
        look = self._deadline.pause()
        return min([*pauses, look] if look is not None else pauses, default=None)

    def _tell_growth(self) -> None:
        now = time.monotonic()
        for output in self._outputs:
            if output.waiting and now >= output.retry_at:
                output.flush()
        if now >= self._tell_at and self._told != self._sizes():
            self._told, self._tell_at = self._sizes(), now + GROWTH_SECONDS
            self._control.tell({"grew": [output.total for output in self._outputs]})

    def _sizes(self) -> list[tuple[int, int]]:
        return [(output.total, output.kept) for output in self._outputs]

    def _clear(self) -> int:
        """Kill and reap every descendant, and read their last output. Return how many descendants there were."""
        survivors = len(self._tree.others())
        give_up = time.monotonic() + UNKILLABLE_SECONDS
        self._tree.kill(self._agent)
        while self._tree.others() and time.monotonic() < give_up:
            self._tree.kill(self._agent)
            self._loop.turn(0.005)
        self._reap()
        give_up = time.monotonic() + DRAIN_SECONDS
        for output in self._outputs:
            while time.monotonic() < give_up and output.take():
                pass
            output.flush()
            output.write_tail()
        return survivors

    def _answer(self, request: "dict[str, Any]") -> "dict[str, Any]":
        action = self._ACTIONS.get(request.get("do"))
        if action is None:
            return {"error": f"unknown request {request.get('do')!r}"}
        try:
            return {"ok": True, **(action(self, request) or {})}
        except (KeyError, TypeError, ValueError, OSError) as error:
            return {"error": str(error) or type(error).__name__}

    def _state(self, _: "dict[str, Any]") -> "dict[str, Any]":
        return {
            "containment": self._tree.containment,
            "agent": self._agent,
            "started_at": instant(self._started),
            # Correct even if the clock was set meanwhile, and without the time it was frozen.
            "age": round(time.monotonic() - self._began - self._deadline.frozen_seconds, 3),
            "stdin_open": self._stdin.open,
            **self._deadline.state(),
            **self._streams.place(),
            **self._printed(),
        }

    def _signal(self, request: "dict[str, Any]") -> None:
        if self._status is None and self._agent:  # not reaped yet, so its process id is not reused
            os.killpg(self._agent, int(request["number"]))

    def _write(self, request: "dict[str, Any]") -> None:
        refusal = self._stdin.write(str(request["text"]))
        if refusal:
            raise ValueError(refusal)
        self._feed()

    def _close_stdin(self, _: "dict[str, Any]") -> None:
        refusal = self._stdin.close()
        if refusal:
            raise ValueError(refusal)
        self._feed()

    def _kill(self, _: "dict[str, Any]") -> None:
        self._tree.kill(self._agent)

    def _freeze(self, _: "dict[str, Any]") -> "dict[str, Any]":
        return {"moving": self._deadline.freeze(), **self._deadline.state()}

    def _thaw(self, _: "dict[str, Any]") -> "dict[str, Any]":
        self._deadline.lift()
        return self._deadline.state()

    def _put_off(self, request: "dict[str, Any]") -> "dict[str, Any]":
        self._deadline.put_off(float(request["seconds"]), float(request["at"]))
        return self._deadline.state()

    def _used(self, _: "dict[str, Any]") -> "dict[str, Any]":
        seconds, kib = self._tree.used()
        now = time.monotonic()
        if now - self._marks[1][0] >= SHARE_SECONDS:
            self._marks = (self._marks[1], (now, seconds))
        since, before = self._marks[0]
        share = max(0.0, seconds - before) / max(now - since, 0.01)
        return {"cpu": round(seconds, 3), "rss": kib, "share": round(share, 3)}

    _ACTIONS: "dict[object, Callable[[Shim, dict[str, Any]], dict[str, Any] | None]]" = {  # noqa: RUF012
        "state": _state,
        "signal": _signal,
        "write": _write,
        "close_stdin": _close_stdin,
        "kill": _kill,
        "cpu": _used,
        "freeze": _freeze,
        "thaw": _thaw,
        "deadline": _put_off,
    }

    def _printed(self) -> "dict[str, Any]":
        return {o.name: {"total": o.total, "kept": o.kept, "error": o.error} for o in self._outputs}

    def _record(self, survivors: int) -> "dict[str, Any]":
        status = self._status
        ended_by = None if status is None or not os.WIFSIGNALED(status) else os.WTERMSIG(status)
        return {
            "version": 1,
            "status": None if status is None or ended_by else os.WEXITSTATUS(status),
            "signal": ended_by,
            "error": self._error,
            "survivors": survivors,
            "cpu_seconds": round(self._cpu, 3),
            "peak_rss_kb": self._peak // (1024 if sys.platform == "darwin" else 1),
            "truncated": self._streams.truncated,
            "crowded": self._crowded,
            "apart": self._apart.had if self._apart else [],
            "containment": self._tree.containment,
            "started_at": instant(self._started),
            "ended_at": instant(time.time()),
            **self._printed(),
        }
