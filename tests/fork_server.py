"""The process that `forking.ForkServer` starts: it imports fleet once, then forks for each command.

The fork takes over the streams, directory, environment and words of a request and runs `fleet.__main__.main`, as a new
process would.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import selectors
import signal
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import NoReturn

#: The longest request, in bytes.
LONGEST = 800_000
#: Modules that are programs, or that import more than all others together.
LEFT_OUT = ("__main__", "fleet.mcp", "fleet.agents.shim")


def serve(link: socket.socket) -> None:
    """Fork for each request until the other end is closed."""
    importlib.invalidate_caches()
    fleet = importlib.import_module("fleet")
    for module in pkgutil.walk_packages(fleet.__path__, "fleet."):
        if not any(part in module.name for part in LEFT_OUT):
            importlib.import_module(module.name)
    main = importlib.import_module("fleet.__main__").main
    gc.collect()
    gc.freeze()
    with selectors.DefaultSelector() as selector:
        selector.register(link, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.data:
                    selector.unregister(key.fd)
                    _report(key.fd, *key.data)
                    continue
                text, handles, _, _ = socket.recv_fds(link, LONGEST, 4)
                if not text:
                    return
                request = json.loads(text)
                if request["argv"][1:2] == ["mcp"]:
                    importlib.import_module("fleet.mcp.server")
                pid = os.fork()
                if not pid:
                    _run(main, request, handles)
                for handle in handles[:3]:
                    os.close(handle)
                os.write(handles[3], b"%10d\n" % pid)
                selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, handles[3]))


def _report(handle: int, pid: int, status: int) -> None:
    """Send the exit code and the processor seconds of a command that has ended."""
    os.close(handle)
    _, code, usage = os.wait4(pid, 0)
    with contextlib.suppress(BrokenPipeError):
        os.write(status, f"{os.waitstatus_to_exitcode(code)} {usage.ru_utime + usage.ru_stime}".encode())
    os.close(status)


def _run(main: Any, request: dict[str, Any], handles: list[int]) -> NoReturn:
    """Run the command in this process."""
    for number, handle in enumerate(handles[:3]):
        os.dup2(handle, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.argv = request["argv"]
    sys.path[:0] = [place for place in os.environ.get("PYTHONPATH", "").split(":") if place]
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        mode, buffering = ("r", -1) if number == 0 else ("w", 1 if number == 2 or os.isatty(number) else -1)
        errors = vars(sys)[name].errors
        stream = open(number, mode, buffering, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
        vars(sys)[name] = vars(sys)[f"__{name}__"] = stream
    code = 1
    try:
        main()
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:  # noqa: BLE001 - as the interpreter does at its outermost
        sys.excepthook(*sys.exc_info())
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code & 0xFF)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    serve(socket.socket(fileno=int(sys.argv[1])))
