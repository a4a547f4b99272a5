"""Follow a command line from its start: the directory and effects of each command, and those out of bounds."""

# ruff: noqa: PTH119
from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from fleet.core.quoting import quote_text
from fleet.proof.scope import git_line
from fleet.proof.scope.bounds import CHECKOUT, DELETES, DOUBTFUL, FINE, GIT, OWN, SURE, WRITES
from fleet.proof.scope.expansion import DEEPEST, UNKNOWN, VAGUE, ShellState, expand, fed, resolve, searched, unwrapped
from fleet.proof.scope.programs import INTERPRETERS, Effect, code_in, effects, script, started
from fleet.proof.scope.shell import OUTPUT, VARIABLE, WRITING, Bracket, Simple, parse, patched

if TYPE_CHECKING:
    from fleet.proof.scope.bounds import WriteBounds
    from fleet.proof.scope.shell import Redirect, Word

#: Maximum number of commands of a line to examine, and of sentences about the line.
MOST_COMMANDS, MOST_TOLD = 1000, 10
SHELLS = ("sh", "bash", "zsh", "dash", "ksh", "ash", "su")
_OPENING = ("if", "while", "until", "for", "select", "case")
_BETWEEN = ("then", "do", "else", "elif", "!", "{", "}", "time", "coproc", "fi", "done", "esac", "function")
_CLOSING = ("fi", "done", "esac")
_SETTING = ("export", "local", "declare", "typeset", "readonly")
#: Commands that pass on names that another command prints.
_FILTERS = ("grep", "egrep", "sort", "uniq", "head", "tail", "tr", "cut", "sed", "awk", "cat", "tac")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)\+?=(.*)", re.DOTALL)


class LineEffect(NamedTuple):
    """An action out of bounds, with a sentence about it and how certain it is."""

    sure: str
    words: str


class CommandLine:
    """A command line that is followed. `told` holds the findings, `state` the shell's state after the line."""

    def __init__(self, bounds: WriteBounds, state: ShellState, depth: int = 0) -> None:
        self.told: list[LineEffect] = []
        self.state = state
        self._bounds = bounds
        self._depth = depth
        self._piped: list[str] = []  # paths that the command before a `|` prints
        self._text = ""  # the text that the command prints
        self._outer: list[ShellState] = []  # the states at the start of open brackets and branches
        self._env: dict[str, str] = {}
        self._raw = ""

    def read(self, text: str) -> None:
        """Follow a line to its end."""
        brackets: list[ShellState] = []
        for count, item in enumerate(parse(text)):
            if count >= MOST_COMMANDS or len(self.told) >= MOST_TOLD:
                return
            if isinstance(item, Simple):
                self._command(item)
            elif item == Bracket("("):
                brackets.append(self.state)
            elif brackets:
                self.state = brackets.pop().replace(links=self.state.links, made=self.state.made)

    def _command(self, command: Simple) -> None:
        if command.before not in ("|", "|&"):
            self._piped, self._text = [], ""
        words, self._env = self._apply_assignments(self._strip_keywords(list(command.words)), command.before)
        self._raw = " ".join(_raw(word) for word in words)
        for word in (*command.words, *(each.target for each in command.redirects)):
            for piece in word:
                if piece.kind == OUTPUT:
                    self._follow_nested(piece.text)
        for each in command.redirects:
            self._follow_redirect(each)
        told = [made for word in words for made in self._words(word)]
        self._piped = self._piped or [made for each in _list_here_strings(command) for made in self._words(each)]
        self._run(told, command)

    def _words(self, word: Word) -> list[str]:
        """Return the expansion of a word. An unquoted variable may become several words."""
        made = expand(word, self.state, self._bounds)
        bare = len(word) == 1 and word[0].kind == VARIABLE and not word[0].quoted
        return made[0].split() if bare and made else made

    def _strip_keywords(self, words: list[Word]) -> list[Word]:
        """Return the words of a command after `then`, `do` and similar keywords."""
        while words and (word := _get_literal(words[0])) in (*_OPENING, *_BETWEEN):
            words = words[1:]
            if word in _OPENING:
                self._outer.append(self.state)
            elif word in ("else", "elif") and self._outer:
                self.state = self._outer[-1]
            elif word in _CLOSING and self._outer:
                began = self._outer.pop()
                moved = self.state.cwd != began.cwd
                self.state = self.state.replace(unsure=self.state.unsure or moved)
            if word in ("for", "select"):
                return self._loop(words)
            if word in ("case", "function"):
                return []
        return words

    def _loop(self, words: list[Word]) -> list[Word]:
        names = [made for word in words[2:] for made in expand(word, self.state, self._bounds)]
        outside = [name for name in names if self._rate_effect(Effect(DELETES, name, whole=True))[0]]
        if words:
            value = (outside or names or [VAGUE])[0]
            self.state = self.state.with_value(_get_literal(words[0]), VAGUE if value[:1] == UNKNOWN else value)
        return []

    def _apply_assignments(self, words: list[Word], before: str) -> tuple[list[Word], dict[str, str]]:
        """Return the command after its assignments, and the assignments. Without a command they persist."""
        found = {}
        if words and _get_literal(words[0]) in _SETTING:
            words = [word for word in words[1:] if not _raw(word).startswith("-")]
            command = False
        else:
            command = any(not _ASSIGNED.match(_raw(word)) for word in words)
        while words and (match := _ASSIGNED.match(_raw(words[0]))) and words[0][0].kind not in (VARIABLE, OUTPUT):
            first = words[0][0]
            value = (first._replace(text=first.text.partition("=")[2]), *words[0][1:])
            text = " ".join(expand(value, self.state, self._bounds))
            found[match[1]] = VAGUE if text[:1] == UNKNOWN else text
            words = words[1:]
        if not command and before not in ("|", "|&"):
            for name, text in found.items():
                self.state = self.state.with_value(name, text)
        return words, found

    def _follow_redirect(self, redirect: Redirect) -> None:
        if redirect.operator not in WRITING:
            return
        for path in expand(redirect.target, self.state, self._bounds):
            if path and not (redirect.operator == ">&" and (path.isdigit() or path == "-")):
                self._judge_effect(
                    Effect(WRITES, path), f"{self._raw} {redirect.operator} {_raw(redirect.target)}".strip()
                )

    def _run(self, words: list[str], command: Simple) -> None:
        words, env, more = unwrapped(words, self._piped)
        self._env |= env
        if not words:
            return
        program, rest = os.path.basename(words[0].rstrip("/")), words[1:]
        document = "\n".join(each.text for each in command.redirects if each.text)
        handler = _HANDLERS.get(program)
        if program in SHELLS:
            self._follow_shell(rest, document, command)
        elif handler is not None:
            handler(self, rest)
        elif program in ("apply_patch", "applypatch"):
            self._all([Effect(verb, path) for verb, path in patched(document or "\n".join(rest))])
        else:
            self._all(effects(program, [*rest, *more]))
            self._follow_script(code_in(program, rest) or (document if program.startswith(INTERPRETERS) else ""))
            self._note_links(program, rest)
        self._piped = self._piped if program in _FILTERS and command.before in ("|", "|&") else searched(program, rest)
        self._text = fed(program, rest, document, self._text)

    def _follow_shell(self, words: list[str], document: str, command: Simple) -> None:
        """Follow the input of a shell: an argument, a here-document, or the output of the previous command."""
        at = next((n for n, word in enumerate(words) if re.fullmatch(r"-[a-z]*c", word)), None)
        if at is not None:
            self._follow_nested(words[at + 1] if at + 1 < len(words) else "")
        elif not [word for word in words if not word.startswith("-")] or words[-1:] == ["-s"]:
            told = [made for word in _list_here_strings(command) for made in expand(word, self.state, self._bounds)]
            self._follow_nested("\n".join([document, *told, self._text]))

    def _follow_script(self, code: str) -> None:
        self._all(script(code))
        for line in started(code):
            self._follow_nested(line)

    def _follow_nested(self, text: str) -> None:
        if self._depth < DEEPEST and text.strip():
            inner = CommandLine(self._bounds, self.state, self._depth + 1)
            inner.read(text)
            self.told += inner.told

    def _follow_eval(self, words: list[str]) -> None:
        if self._depth < DEEPEST:
            inner = CommandLine(self._bounds, self.state, self._depth + 1)
            inner.read(" ".join(words))
            self.told += inner.told
            self.state = inner.state

    def _follow_trap(self, words: list[str]) -> None:
        self._follow_nested(words[0] if len(words) > 1 else "")

    def _change_directory(self, words: list[str]) -> None:
        named = [word for word in words if not re.fullmatch(r"-[LPe@]+|--", word)]
        if named[:1] == ["-"]:
            self.state = self.state.gone_to(self.state.before)
            return
        found = resolve(named[0] if named else self._bounds.home, self.state)
        self.state = self.state.gone_to(found.path if found and found.exact else None)

    def _go_back(self, words: list[str]) -> None:
        self.state = self.state.gone_to(self.state.before)

    def _read_names(self, words: list[str]) -> None:
        for name in [word for word in words if word.isidentifier()]:
            self.state = self.state.with_value(name, self._piped[0] if self._piped else VAGUE)

    def _find(self, words: list[str]) -> None:
        roots = searched("find", words)
        if "-delete" in words:
            self._all([Effect(DELETES, root, whole=True) for root in roots])
        for at, word in enumerate(words):
            if word in ("-exec", "-execdir", "-ok", "-okdir"):
                inner = words[at + 1 :]
                end = next((n for n, each in enumerate(inner) if each in (";", "+")), len(inner))
                for root in roots[:8]:
                    self._run([each.replace("{}", root) for each in inner[:end]], Simple((), (), ";"))
            elif word in ("-fprint", "-fls", "-fprintf") and at + 1 < len(words):
                self._all([Effect(WRITES, words[at + 1])])

    def _git(self, words: list[str]) -> None:
        call, bounds = git_line.called(words, self._env), self._bounds
        state = self.state
        for folder in call.folders:
            found = resolve(folder, state)
            state = state.gone_to(found.path if found and found.exact else None)
        for each in git_line.effects(call):
            self._judge_effect(each, self._raw, state)
        target = self._target(call, state)
        if target is None:
            return
        if git_line.changes_checkout(call) or (call.command == "config" and bounds.whose(target) != OWN):
            sure, owner = bounds.judged(WRITES, target)
            self._say(sure, f"changes {quote_text(target)} {owner}" if sure else "")
        foreign = bounds.whose(target) not in (OWN, CHECKOUT, GIT) or self._is_made(target)
        own = foreign or not bounds.admin
        for told in git_line.shared(call, bounds.branch, bounds.others, own_repository=own):
            if not foreign or "--global" in call.words or "--system" in call.words:
                self._say(told.sure, told.words)
        if call.command in ("init", "clone"):
            named = [word for word in call.words if not word.startswith("-")][-1:]
            made = resolve(named[0] if named else ".", state)
            self.state = self.state.replace(made=(*self.state.made, made.path)[-50:] if made else self.state.made)

    def _target(self, call: git_line.GitCall, state: ShellState) -> str | None:
        """Return the checkout that a git command works on."""
        if call.work_tree and (found := resolve(call.work_tree, state)):
            return found.path
        if not call.git_dir:
            return state.cwd
        found = resolve(call.git_dir, state)
        return found.path if found else None

    def _is_made(self, path: str) -> bool:
        """Return True if the agent created a repository, or the repository is outside of all protected places."""
        bounds = self._bounds
        ours = (path + "/").startswith(bounds.workspace + "/") or bounds.whose(path) in (CHECKOUT, GIT)
        ours = ours or (not bounds.admin and path == bounds.common) or (bool(bounds.admin) and path == bounds.admin)
        return not ours or any((path + "/").startswith(made + "/") for made in self.state.made)

    def _note_links(self, program: str, words: list[str]) -> None:
        """Note links that a command creates: a write through a link goes to its target."""
        operands = [word for word in words if not word.startswith("-")]
        if program == "ln" and len(operands) == 2:
            target, link = resolve(operands[0], self.state), resolve(operands[1], self.state)
            if target and link and target.exact and link.exact and len(self.state.links) < 100:
                self.state = self.state.replace(links={**self.state.links, link.path: target.path})

    def _all(self, found: list[Effect]) -> None:
        for each in found:
            self._judge_effect(each, self._raw)

    def _judge_effect(self, effect: Effect, raw: str, state: ShellState | None = None) -> None:
        sure, words = self._rate_effect(effect, state)
        self._say(sure, words, raw)

    def _rate_effect(self, effect: Effect, state: ShellState | None = None) -> tuple[str, str]:
        """Return how certain it is that an effect is out of bounds, and the effect in words."""
        state = state or self.state
        found = resolve(effect.path, state)
        if found is None:
            dark = effect.verb == DELETES and effect.whole and effect.path[:2] == UNKNOWN + "/"
            return (DOUBTFUL, "deletes files at an unknown place") if dark else (FINE, "")
        whole = effect.whole and (found.exact or found.every)
        sure, owner = self._bounds.judged(effect.verb, found.path, whole=whole, exact=found.exact)
        if state.unsure and not effect.path.startswith("/") and self._bounds.whose(state.cwd or "") == OWN:
            return FINE, ""
        return sure, f"{effect.verb} {quote_text(found.path)} {owner}" if sure else ""

    def _say(self, sure: str, words: str, raw: str = "") -> None:
        if sure in (SURE, DOUBTFUL):
            self.told.append(LineEffect(sure, f"`{quote_text(raw or self._raw)}` {words}"))


_HANDLERS = {
    **dict.fromkeys(("cd", "pushd", "chdir"), CommandLine._change_directory),
    "popd": CommandLine._go_back,
    "eval": CommandLine._follow_eval,
    "trap": CommandLine._follow_trap,
    **dict.fromkeys(("read", "mapfile", "readarray"), CommandLine._read_names),
    "find": CommandLine._find,
    "git": CommandLine._git,
}


def _list_here_strings(command: Simple) -> list[Word]:
    """Return the texts that a command reads from `<<< text`."""
    return [each.target for each in command.redirects if each.operator == "<<<"]


def _get_literal(word: Word) -> str:
    return word[0].text if len(word) == 1 and word[0].kind not in (VARIABLE, OUTPUT) else ""


def _raw(word: Word) -> str:
    """Return a word approximately as written."""
    marks = {VARIABLE: "$", OUTPUT: "$("}
    return "".join(marks.get(each.kind, "") + each.text + (")" if each.kind == OUTPUT else "") for each in word)
