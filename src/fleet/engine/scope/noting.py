"""Keep the lookout's findings with the run: certain findings in its notes, doubtful findings in its flags.

strayed   sentences about certain actions of its tools out of its bounds
shell     the directory of its shell, if that is not the workspace
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.jsontext import encode

if TYPE_CHECKING:
    from fleet.core.run import Run
    from fleet.engine.scope.lookout import Seen

#: Maximum number of sentences kept. Half of the flags remain free for other remarks.
MOST_STRAYED, MOST_FLAGS = 20, 10


def noted(run: Run, seen: Seen, directory: str) -> Run:
    """Return the run with its findings added. Earlier findings stay, except for refused calls."""
    notes = run.notes
    before = [each for each in strayed_in(run) if each not in seen.undone]
    strayed = list(dict.fromkeys([*before, *seen.strayed]))[:MOST_STRAYED]
    shell = {"shell": directory} if directory != run.workspace else {}
    kept = {name: value for name, value in notes.items() if name not in ("strayed", "shell")}
    made = kept | ({"strayed": strayed} if strayed else {}) | shell
    if made != notes:
        run = run.replace(folded=encode(made))
    flags = run.flagged
    more = [each for each in seen.doubts if each not in flags][: max(MOST_FLAGS - len(flags), 0)]
    return run.replace(flags=encode([*flags, *more])) if more else run


def strayed_in(run: Run) -> list[str]:
    """Return the sentences that a run keeps about its actions out of bounds."""
    kept = run.notes.get("strayed")
    return [str(each) for each in kept] if isinstance(kept, list) else []
