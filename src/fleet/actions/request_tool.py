"""The `gh` program, which calls the forge for the user. It is found on the PATH and run with argument lists."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING, NamedTuple

from fleet.core.errors import FleetError
from fleet.core.redaction import Redactor
from fleet.workspaces.pushing import users_environment

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM = "gh"
PATIENCE_SECONDS = 120.0
#: Settings that make `gh` suitable for programs: no prompts, color, update notices or pager.
FOR_PROGRAMS = {"GH_PROMPT_DISABLED": "1", "NO_COLOR": "1", "GH_NO_UPDATE_NOTIFIER": "1", "GH_PAGER": "cat"}
MOST_LISTED = 20


class Opened(NamedTuple):
    """An open pull request."""

    number: int
    url: str


class Gh:
    """The user's own `gh`, in one repository."""

    def __init__(self, top: str) -> None:
        self._top = top
        self._program = shutil.which(PROGRAM)

    @property
    def is_there(self) -> bool:
        return self._program is not None

    def find(self, branch: str) -> Opened | None:
        """Return the open request of a branch of this repository. Ignore branches with the same name in forks.

        Return None if no request is open. Raises FleetError.
        """
        fields = "number,url,headRefName,isCrossRepository"
        words = ("pr", "list", "--head", branch, "--state", "open", "--limit", str(MOST_LISTED), "--json", fields)
        told = self._run(words)
        try:
            rows = [row for row in json.loads(told or "[]") if not row.get("isCrossRepository")]
            found = [Opened(int(row["number"]), str(row["url"])) for row in rows if row["headRefName"] == branch]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise FleetError("gh did not say which pull requests there are", hint="`gh pr list` shows more.") from error
        return found[0] if found else None

    def open(self, words: Sequence[str], text: str) -> str:
        told = self._run((*words, "--body-file", "-"), text).split()
        return next((word for word in reversed(told) if "://" in word), "")

    def comment(self, number: int, text: str) -> None:
        self._run(("pr", "comment", str(number), "--body-file", "-"), text)

    def _run(self, words: Sequence[str], text: str = "") -> str:
        argv = [self._program or PROGRAM, *words]
        try:
            done = subprocess.run(
                argv,
                cwd=self._top,
                env=users_environment() | FOR_PROGRAMS,
                input=text.encode("utf-8", "replace"),
                capture_output=True,
                timeout=PATIENCE_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise FleetError(f"gh {words[0]} {words[1]} did not work: {error}") from error
        if done.returncode:
            said = Redactor().text(done.stderr.decode(errors="replace")).strip().splitlines()
            why = said[-1] if said else f"it ended with {done.returncode}"
            raise FleetError(f"gh {words[0]} {words[1]} failed: {why}", hint="`gh auth status` tells who is logged in.")
        return done.stdout.decode(errors="replace")


def opening(branch: str, title: str, *, base: str, draft: bool) -> tuple[str, ...]:
    """Return the arguments that open a request, without its text."""
    words = ("pr", "create", "--head", branch, "--title", title)
    return (*words, *(("--base", base) if base else ()), *(("--draft",) if draft else ()))
