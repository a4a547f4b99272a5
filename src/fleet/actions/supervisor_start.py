"""A supervisor that starts in the background. This module imports little, so that a command can start one early."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from fleet.assembly import refuse_foreign
from fleet.engine.single import holder
from fleet.engine.start_report import await_start

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.engine.start_report import Start
    from fleet.home import Home

#: The option of a supervisor that claims only tasks made by `create` and similar commands.
ONLY_MADE = "--only-made"


class StartingSupervisor:
    """A supervisor that is starting. It reports through a pipe once its database has answered."""

    def __init__(self, home: Home, flags: Sequence[str]) -> None:
        argv = [sys.executable, "-P", "-m", "fleet", "run", "foreground", "--quiet", *flags]
        out = os.open(home.supervisor_output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._told, telling = os.pipe()
        try:
            self._process = subprocess.Popen(
                [*argv, "--report", str(telling)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                pass_fds=(telling,),
                cwd=home.root,
                env=os.environ | {"FLEET_HOME": home.root},
            )
        except BaseException:
            os.close(self._told)
            raise
        finally:
            os.close(out)
            os.close(telling)
        self.is_awaited = False

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait(self, seconds: float) -> Start:
        """Wait until the supervisor serves or has ended, or until `seconds` have passed."""
        self.is_awaited = True
        try:
            return await_start(self._told, seconds)
        finally:
            os.close(self._told)

    def cancel(self) -> None:
        """Stop the supervisor, unless `wait` was called: then it has work."""
        if not self.is_awaited:
            os.close(self._told)
            self._process.send_signal(signal.SIGTERM)


def start_early(home: Home) -> StartingSupervisor | None:
    """Start the supervisor that `create` will need, if the home has none and keeps its queue in its own file.

    The caller calls `control.ensure` once tasks exist, or cancels it.
    """
    home.check()
    refuse_foreign(home)
    is_plain = home.exists and not home.names_queue(os.environ) and not os.path.exists(home.kept_name)  # noqa: PTH110
    return StartingSupervisor(home, [ONLY_MADE]) if is_plain and holder(home) is None else None
