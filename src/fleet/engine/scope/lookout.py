"""The lookout: read the calls of an agent's tools, and report which actions are out of the agent's bounds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from fleet.core.event import Kind
from fleet.engine.scope.bounds import DOUBTFUL, OWN, SURE
from fleet.engine.scope.expansion import State, resolve
from fleet.engine.scope.line import MOST_TOLD, Line, Told
from fleet.engine.scope.shell import LONGEST
from fleet.engine.scope.tools import call_of
from fleet.engine.scope.words import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fleet.core.event import Event
    from fleet.engine.scope.bounds import Bounds

#: Maximum number of calls that wait for a result.
MOST_OPEN = 100
#: Maximum length of command lines read in one look, because other work waits meanwhile.
MOST_READ = 4 * LONGEST
UNREAD = "its tools were asked to do more at once than fleet reads"
#: Texts with which a coder, its sandbox or the system reports that a call was refused.
_REFUSED = re.compile(
    r"permission|denied|not allowed|not permitted|blocked|declined|rejected|refused|approv|sandbox|read-only"
    r"|doesn't want",
    re.IGNORECASE,
)
#: How much of a result is searched for such a text.
HEAD = 1000
#: A command that ran and failed may still have had its effect.
_RAN = re.compile(r"\s*(?:exit code|process exited)", re.IGNORECASE)


class Seen(NamedTuple):
    """The findings: surely out of bounds, possibly out of bounds, and earlier findings whose call was refused."""

    strayed: list[str]
    doubts: list[str]
    undone: list[str]


class Lookout:
    """The observer of one run. Its findings follow from events alone: it reads no file and runs nothing."""

    def __init__(self, bounds: Bounds, clean: Callable[[str], str] = str, directory: str = "") -> None:
        self._bounds = bounds
        self._clean = clean
        self._state = State(cwd=bounds.workspace)
        #: The shell's directory, for coders whose shell keeps it between lines.
        self.directory = directory or bounds.workspace
        self._open: dict[str, list[str]] = {}
        self._room = MOST_READ

    def look(self, events: Iterable[Event]) -> Seen:
        """Return the findings in these events, each sentence once."""
        strayed: dict[str, None] = {}
        doubts: dict[str, None] = {}
        undone: dict[str, None] = {}
        self._room = MOST_READ
        for event in events:
            if event.kind == Kind.TOOL_USE:
                told = self._told(event)
                doubts |= dict.fromkeys(each.words for each in told if each.sure == DOUBTFUL)
                sure = [each.words for each in told if each.sure == SURE]
                strayed |= dict.fromkeys(sure)
                self._wait_for(event.tool_id, sure)
            elif _is_refusal(event):
                for words in self._open.pop(event.tool_id, ()):
                    undone[words] = None
                    strayed.pop(words, None)
                    doubts[f"{words}, and was not allowed to"] = None
            elif event.kind == Kind.TOOL_RESULT:
                self._open.pop(event.tool_id, None)
        return Seen(list(strayed), list(doubts), list(undone))

    def _wait_for(self, call: str, sentences: list[str]) -> None:
        if call and sentences:
            self._open = dict([*self._open.items()][-MOST_OPEN + 1 :])
            self._open[call] = sentences

    def _told(self, event: Event) -> list[Told]:
        call = call_of(event)
        found = self._of_files(event.tool, call.files)
        for line in call.lines:
            self._room -= min(len(line), LONGEST)
            found += self._of_line(line, call.directory) if self._room >= 0 else [Told(DOUBTFUL, UNREAD)]
        if event.tool.startswith("mcp__"):  # the tool of another program may work on another machine
            found = [each._replace(sure=DOUBTFUL) for each in found]
        return [Told(each.sure, self._clean(each.words)) for each in dict.fromkeys(found[:MOST_TOLD])]

    def _of_files(self, tool: str, files: Iterable[tuple[str, str]]) -> list[Told]:
        found = []
        for verb, path in files:
            where = resolve(path, self._state)
            if where is not None:
                sure, owner = self._bounds.judged(verb, where.path)
                if sure:
                    found.append(Told(sure, f"its tool {shown(tool, 40)} {verb} {shown(where.path)} {owner}"))
        return found

    def _of_line(self, line: str, directory: str) -> list[Told]:
        """Return the findings in a line.

        Some shells keep the previous line's directory, so the line is read twice. The milder reading counts.
        """
        named = resolve(directory, self._state) if directory else None
        starts = [named.path] if named else list(dict.fromkeys((self._bounds.workspace, self.directory)))
        began = self._state
        read = [_followed(line, self._bounds, began.replace(cwd=start)) for start in starts]
        best = min(read, key=lambda each: len(each.told))
        # The shells that keep it show the current directory. Links and repositories are kept too.
        self._state = self._state.replace(links=best.state.links, made=best.state.made)
        last = read[-1].state.cwd
        kept = not named and last is not None and self._bounds.whose(last) == OWN
        self.directory = last if kept and last else self._bounds.workspace
        if not best.told:
            return []
        # Redact secrets before a sentence cuts one in two.
        start = starts[read.index(best)]
        return _followed(self._clean(line[:LONGEST]), self._bounds, began.replace(cwd=start)).told


def _followed(line: str, bounds: Bounds, state: State) -> Line:
    follower = Line(bounds, state)
    follower.read(line)
    return follower


def _is_refusal(event: Event) -> bool:
    if event.kind == Kind.DENIED:
        return bool(event.tool_id)
    if event.kind != Kind.TOOL_RESULT or event.ok is not False:
        return False
    head = event.text[:HEAD]
    return _REFUSED.search(head) is not None and not _RAN.match(head)
