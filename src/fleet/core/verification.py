"""Verifications: fleet's own checks of a commit, and their results."""

from __future__ import annotations

import re

from fleet.core.jsontext import decode, encode
from fleet.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


#: The exit codes of a shell for a program that it cannot execute or find.
NOT_EXECUTABLE, NOT_FOUND = 126, 127
_LACKS = re.compile(r"([^\s:'\"]+)['\"]?: (?:command )?(?:not found|No such file|Permission denied|cannot execute)")


class VerifyRequest(Record):
    """A requested verification."""

    command: str
    also: str = ""  # another command that must pass, from the agent that created the task
    seconds: float = 600.0
    protect: tuple[str, ...] = ()  # globs of files that are taken from the base, whatever the branch changed
    fail_to_pass: bool = False  # it must fail at the base
    network: bool = False  # the command may use the network
    setup: tuple[str, ...] = ()  # commands to run first in the checkout
    use: tuple[str, ...] = ()  # folders to take from the worktree, else from the main checkout


class Verification(Record):
    """The result of a command at one commit, in a separate clean checkout."""

    command: str
    commit: str
    base: str = ""
    status: int | None = None  # None: it was ended, or never started
    why: str = ""  # why it did not exit or start
    seconds: float = 0.0
    tail: str = ""  # the end of its output
    passed: int | None = None  # number of tests as the runner reported; None: not reported
    failed: int | None = None
    skipped: int | None = None
    restored: tuple[str, ...] = ()  # protected files that the branch had changed and that were restored from the base
    # tests of the base that the branch changed, so their results rest on the agent's own work
    contested: tuple[str, ...] = ()
    without_them: int | None = None  # exit status with those tests as in the base; None: not run
    base_status: int | None = None  # exit status at the base; None: not run
    used: tuple[str, ...] = ()  # folders that were not of the commit, as paths
    setup: str = ""  # which setup command failed, at the base too, in words; the work is not at fault then
    containment: str = ""  # what the command could not reach, in words
    programs: tuple[str, ...] = ()  # programs that judged, each with the hash of its file
    notes: tuple[str, ...] = ()  # what was not checked, in words
    doubts: tuple[str, ...] = ()  # why exit code 0 proves less than it seems, in words

    @property
    def ok(self) -> bool:
        """Return True if the command exited with 0 at the commit."""
        return self.status == 0 and not self.why

    @property
    def proves(self) -> bool:
        """Return True if the result is proof. The agent's own changes to the tests prove nothing."""
        if not self.ok or self.doubts:
            return False
        return not self.contested or self.without_them == 0

    @property
    def lacks(self) -> str:
        """Return the program that the command did not find or could not execute, or ""."""
        if self.status not in (NOT_EXECUTABLE, NOT_FOUND):
            return ""
        found = _LACKS.findall(self.tail)
        return str(found[-1]) if found else self.command.split(maxsplit=1)[0]

    @property
    def in_words(self) -> str:
        if self.lacks:
            how = "not found" if self.status == NOT_FOUND else "cannot be executed"
            return f"cannot run in a clean checkout: {self.lacks} {how} (exit code {self.status})"
        return self.why or f"ended with exit code {self.status}"

    def text(self) -> str:
        return encode(self.as_dict())


def verification_in(text: str) -> Verification | None:
    """Return the verification in a JSON text, or None if it is empty."""
    if not text:
        return None
    told: dict[str, Any] = {name: value for name, value in decode(text).items() if name in Verification._fields}
    lists = {name: tuple(value) for name, value in told.items() if isinstance(value, list)}
    return Verification(**(told | lists))
