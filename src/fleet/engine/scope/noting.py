"""What the lookout saw, kept with the run: what is sure among its notes, what is doubtful among its flags.

strayed   sentences for what its tools surely did outside of its bounds
shell     the directory its shell stayed in, where that is not the workspace
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.jsontext import encode

if TYPE_CHECKING:
    from fleet.core.run import Run
    from fleet.engine.scope.lookout import Seen

#: Sentences that are kept; half of the flags stay free for what else there is to say.
MOST_STRAYED, MOST_FLAGS = 20, 10


def noted(run: Run, seen: Seen, directory: str) -> Run:
    """The run with what was seen of it; what was kept before stays, but for what turned out not to be done."""
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
    """The sentences that a run keeps about what it did outside of its bounds."""
    kept = run.notes.get("strayed")
    return [str(each) for each in kept] if isinstance(kept, list) else []
