"""The lookout: read the calls of an agent's tools, and report which actions are out of the agent's bounds."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

from fleet.core.event import Kind
from fleet.core.quoting import quote_text
from fleet.proof.scope.bounds import DELETES, DOUBTFUL, MAKES, OWN, SURE, WRITES
from fleet.proof.scope.expansion import ShellState, resolve
from fleet.proof.scope.line import MOST_TOLD, CommandLine, LineEffect
from fleet.proof.scope.shell import LONGEST, patched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from fleet.core.event import Event
    from fleet.proof.scope.bounds import WriteBounds


#: Tools that write files, by their names without case, `_` and `-`.
WRITERS = frozenset(
    (
        *("write", "edit", "multiedit", "notebookedit", "writefile", "replace", "createfile", "create", "editfile"),
        *("strreplace", "strreplaceeditor", "strreplacebasededittool", "insert", "insertedit", "writetofile", "update"),
        *("replaceinfile", "applydiff", "searchreplace", "movefile", "fswrite", "appendfile", "editnotebook"),
    )
)
DELETERS = frozenset(("deletefile", "removefile", "delete", "remove", "deletedirectory", "removedirectory"))
MAKERS = frozenset(("createdirectory", "mkdir", "makedirectory"))
PATCHERS = frozenset(("applypatch", "patch"))
#: Keys of their inputs for a file, a line, a working directory and a patch.
FILES = (
    *("file_path", "filePath", "path", "absolute_path", "notebook_path", "target_file", "filename", "file"),
    *("destination", "new_path", "source"),
)
LINES = ("command", "cmd", "argv", "script", "chars", "commands")
DIRECTORIES = ("workdir", "cwd", "dir_path", "directory", "working_directory")
PATCHES = ("input", "patch", "patchText", "patch_text", "content")
#: Commands with which an editing tool only reads.
LOOKING = ("view", "undo_edit", "read")
#: Maximum number of entries of a list to examine.
MOST = 200


class RequestedActions(NamedTuple):
    """The requested actions of a tool call."""

    lines: tuple[str, ...] = ()
    directory: str = ""
    files: tuple[tuple[str, str], ...] = ()  # each action and its file


def call_of(event: Event) -> RequestedActions:
    """Return the requested actions of a tool call. Return an empty call for a tool that does not write."""
    name, data = plain_name(event.tool), event.data
    if name == "filechange":
        return RequestedActions(files=tuple(_list_changes(data)))
    if name in PATCHERS:
        return RequestedActions(files=tuple(each for key in PATCHES for each in patched(_get_text(data, key))))
    verb = WRITES if name in WRITERS else DELETES if name in DELETERS else MAKES if name in MAKERS else ""
    if verb:
        return (
            RequestedActions()
            if data.get("command") in LOOKING
            else RequestedActions(files=tuple(_list_files(verb, data)))
        )
    lines = tuple(line for key in LINES for line in _list_lines(data.get(key)))
    return RequestedActions(
        lines=lines, directory=next((_get_text(data, key) for key in DIRECTORIES if _get_text(data, key)), "")
    )


def plain_name(tool: str) -> str:
    """Return a tool's name for comparison: without server, case and separators."""
    return tool[:500].rpartition("__")[2].lower().replace("_", "").replace("-", "")


def _list_changes(data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for each in _as_list(data.get("changes")):
        if isinstance(each, dict) and _get_text(each, "path"):
            yield (DELETES if each.get("kind") == "delete" else WRITES), _get_text(each, "path")


def _list_files(verb: str, data: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key in FILES:
        if path := _get_text(data, key):
            yield (DELETES if key == "source" else verb), path
    for key in ("edits", "files"):
        for each in _as_list(data.get(key)):
            if isinstance(each, dict):
                yield from ((verb, path) for name in FILES if (path := _get_text(each, name)))


def _list_lines(told: Any) -> list[str]:
    if isinstance(told, str):
        return [told]
    words = [each for each in _as_list(told) if isinstance(each, str)]
    return [shlex.join(words)] if words else []


def _as_list(told: Any) -> list[Any]:
    return told[:MOST] if isinstance(told, list) else []


def _get_text(data: dict[str, Any], key: str) -> str:
    told = data.get(key)
    return told if isinstance(told, str) else ""


#: Maximum number of calls that wait for a result.
MOST_OPEN = 100
#: Maximum length of command lines read in one look, because other work waits meanwhile.
MOST_READ = 4 * LONGEST
UNREAD = "its tool call has more commands than fleet reads"
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


class ScopeFindings(NamedTuple):
    """The findings: surely out of bounds, possibly out of bounds, and earlier findings whose call was refused."""

    strayed: list[str]
    doubts: list[str]
    undone: list[str]


class Lookout:
    """The observer of one run. Its findings follow from events alone: it reads no file and runs nothing."""

    def __init__(self, bounds: WriteBounds, clean: Callable[[str], str] = str, directory: str = "") -> None:
        self._bounds = bounds
        self._clean = clean
        self._state = ShellState(cwd=bounds.workspace)
        #: The shell's directory, for coders whose shell keeps it between lines.
        self.directory = directory or bounds.workspace
        self._open: dict[str, list[str]] = {}
        self._room = MOST_READ

    def look(self, events: Iterable[Event]) -> ScopeFindings:
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
                    doubts[f"{words}, but was not allowed to"] = None
            elif event.kind == Kind.TOOL_RESULT:
                self._open.pop(event.tool_id, None)
        return ScopeFindings(list(strayed), list(doubts), list(undone))

    def _wait_for(self, call: str, sentences: list[str]) -> None:
        if call and sentences:
            self._open = dict([*self._open.items()][-MOST_OPEN + 1 :])
            self._open[call] = sentences

    def _told(self, event: Event) -> list[LineEffect]:
        call = call_of(event)
        found = self._check_files(event.tool, call.files)
        for line in call.lines:
            self._room -= min(len(line), LONGEST)
            found += self._check_line(line, call.directory) if self._room >= 0 else [LineEffect(DOUBTFUL, UNREAD)]
        if event.tool.startswith("mcp__"):  # the tool of another program may work on another machine
            found = [each._replace(sure=DOUBTFUL) for each in found]
        return [LineEffect(each.sure, self._clean(each.words)) for each in dict.fromkeys(found[:MOST_TOLD])]

    def _check_files(self, tool: str, files: Iterable[tuple[str, str]]) -> list[LineEffect]:
        found = []
        for verb, path in files:
            where = resolve(path, self._state)
            if where is not None:
                sure, owner = self._bounds.judged(verb, where.path)
                if sure:
                    found.append(
                        LineEffect(sure, f"its tool {quote_text(tool, 40)} {verb} {quote_text(where.path)} {owner}")
                    )
        return found

    def _check_line(self, line: str, directory: str) -> list[LineEffect]:
        """Return the findings in a line.

        Some shells keep the previous line's directory, so the line is read twice. The milder reading counts.
        """
        named = resolve(directory, self._state) if directory else None
        starts = [named.path] if named else list(dict.fromkeys((self._bounds.workspace, self.directory)))
        began = self._state
        read = [_follow_line(line, self._bounds, began.replace(cwd=start)) for start in starts]
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
        return _follow_line(self._clean(line[:LONGEST]), self._bounds, began.replace(cwd=start)).told


def _follow_line(line: str, bounds: WriteBounds, state: ShellState) -> CommandLine:
    follower = CommandLine(bounds, state)
    follower.read(line)
    return follower


def _is_refusal(event: Event) -> bool:
    if event.kind == Kind.DENIED:
        return bool(event.tool_id)
    if event.kind != Kind.TOOL_RESULT or event.ok is not False:
        return False
    head = event.text[:HEAD]
    return _REFUSED.search(head) is not None and not _RAN.match(head)
