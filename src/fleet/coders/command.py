"""Output of a described coder: paths into JSON objects, and signs that a line must have."""

from __future__ import annotations

import os
import re
from itertools import islice
from typing import TYPE_CHECKING, Any

from fleet.coders.base import SAME_CWD, Coder, Command
from fleet.coders.said import LARGEST, clean, decoded, instant
from fleet.core.errors import BadInput, FleetError
from fleet.core.event import Event, Kind, Limit, Usage
from fleet.settings.described_coder import PATHS, OutputPath

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fleet.settings.described_coder import OutputSettings


#: The sign that is not a path: text that the line itself must contain.
CONTAINS = "contains"
#: Maximum number of values that one path finds in one line.
MOST = 1000
LONGEST_NAME = 200
LONGEST_REASON = 500
STDERR_TAIL = 16 * 1024
TOKENS = ("input", "output", "cache_read", "cache_write")


class OutputParser:
    """Parser for a described coder's output. It keeps no state."""

    def __init__(self, output: OutputSettings) -> None:
        self._output = output
        told = {name: getattr(output, name) for name in PATHS}
        places = {
            name: each if isinstance(each, OutputPath) else OutputPath(path=each) for name, each in told.items() if each
        }
        self._places = {name: (place.path.split("."), place.when) for name, place in places.items()}

    def events(self, line: str) -> list[Event]:
        """Return a line's events in order: tools, texts, usage, limits, the final result."""
        said = (decoded(line) or {}) if self._output.format == "jsonl" else {}
        ok = self._last_word(line, said)
        limit = self._limit(line, said)
        found = [Event(kind=Kind.TOOL_USE, tool=name[:LONGEST_NAME]) for name in self._all("tool", line, said, _text)]
        if ok is None and limit is None:
            found += [Event(kind=Kind.TEXT, text=text) for text in self._texts(line, said)]
            found += [Event(kind=Kind.ERROR, text=text) for text in self._all("error", line, said, _text)]
        found += self._usage(line, said)
        if limit is not None:
            found.append(limit)
        if ok is not None:
            found.append(Event(kind=Kind.RESULT, ok=ok, text=self._reason(line, said)))
        session = self._first("session", line, said, _session)
        if not session:
            return found
        return [found[0].replace(session=session), *found[1:]] if found else [_started(session)]

    def complaint(self, stderr: str) -> Event | None:
        """Return the last limit that stderr reports."""
        lines = stderr[-STDERR_TAIL:].splitlines()
        return next((event for line in reversed(lines) if (event := self._limit(line, {}))), None)

    def _last_word(self, line: str, said: Mapping[str, Any]) -> bool | None:
        if _has(self._output.failure, line, said):
            return False
        return True if _has(self._output.success, line, said) else None

    def _limit(self, line: str, said: Mapping[str, Any]) -> Event | None:
        output = self._output
        if _has(output.context_full, line, said):
            return Event(kind=Kind.CONTEXT_FULL, text=self._reason(line, said))
        kinds = ((output.auth, "auth"), (output.limit, output.limit_kind), (output.overload, "overload"))
        kind = next((kind for signs, kind in kinds if _has(signs, line, said)), "")
        if not kind:
            return None
        text = self._reason(line, said) or clean(line.strip())[:LONGEST_REASON]
        return Event(
            kind=Kind.LIMIT,
            text=text,
            limit=Limit(kind=kind, text=text, resets_at=self._first("resets_at", line, said, instant)),
        )

    def _reason(self, line: str, said: Mapping[str, Any]) -> str:
        """Return the text of a line that ends the run: its error, else its text, else a plain-text line itself."""
        told = self._first("error", line, said, _text) or self._first("text", line, said, _text)
        return told or ("" if said else clean(line.strip())[:LONGEST_REASON])

    def _texts(self, line: str, said: Mapping[str, Any]) -> list[str]:
        if self._output.format == "jsonl":
            return self._all("text", line, said, _text)
        return [clean(line)] if line.strip() else []

    def _usage(self, line: str, said: Mapping[str, Any]) -> list[Event]:
        counts = {name: self._first(f"{name}_tokens", line, said, _count) for name in TOKENS}
        told = {name: count for name, count in counts.items() if count is not None}
        cost = self._first("cost_usd", line, said, _amount)
        context, window = (self._first(name, line, said, _count) for name in ("context", "window"))
        if not told and cost is None and context is None and window is None:
            return []
        total = self._output.usage_total
        return [
            Event(
                kind=Kind.USAGE,
                usage=Usage(**told, total=total) if told else None,
                cost_usd=cost if total else None,
                cost_added=None if total else cost,
                context=context,
                window=window,
            )
        ]

    def _first(self, name: str, line: str, said: Mapping[str, Any], read: Callable[[Any], Any]) -> Any:
        return next(iter(self._all(name, line, said, read)), None)

    def _all(self, name: str, line: str, said: Mapping[str, Any], read: Callable[[Any], Any]) -> list[Any]:
        path, when = self._places.get(name, ((), {}))
        if not path or (when and not _has(when, line, said)):
            return []
        return [value for each in _at(said, path) if (value := read(each)) is not None]


def is_session(text: str) -> bool:
    """Return True if a text chosen by an agent can be passed to a program as an argument."""
    return 0 < len(text) <= LONGEST_NAME and text.isprintable() and not text.startswith("-")


def _started(session: str) -> Event:
    return Event(kind=Kind.SESSION_STARTED, session=session)


def _has(signs: Mapping[str, Any], line: str, said: Mapping[str, Any]) -> bool:
    """Return True if a line has all the signs. Return False if no signs are given."""
    return bool(signs) and all(_has_one(path, wanted, line, said) for path, wanted in signs.items())


def _has_one(path: str, wanted: Any, line: str, said: Mapping[str, Any]) -> bool:
    choices = wanted if isinstance(wanted, tuple) else (wanted,)
    if path == CONTAINS:
        return any(isinstance(text, str) and text in line for text in choices)
    return any(_same(value, choice) for value in _at(said, path.split(".")) for choice in choices)


def _same(value: Any, choice: Any) -> bool:
    # Python treats True as equal to 1.
    return isinstance(value, bool) is isinstance(choice, bool) and bool(value == choice)


def _at(said: Mapping[str, Any], path: list[str]) -> list[Any]:
    """Return the values at a path: names of objects, list indexes from 0, `*` for each element of a list."""
    found: list[Any] = [said]
    for part in path:
        found = list(islice((inner for value in found for inner in _inside(value, part)), MOST))
    return found


def _inside(value: Any, part: str) -> Iterator[Any]:
    if isinstance(value, dict) and part in value:
        yield value[part]
    elif isinstance(value, list) and part == "*":
        yield from value[:MOST]
    elif isinstance(value, list) and part.isdecimal() and len(part) < 6 and int(part) < len(value):
        yield value[int(part)]


def _text(value: Any) -> str | None:
    return clean(value) if isinstance(value, str) and value else None


def _session(value: Any) -> str | None:
    return value if isinstance(value, str) and is_session(value) else None


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < LARGEST else None


def _amount(value: Any) -> float | None:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < LARGEST
    return float(value) if usable else None


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fleet.coders.base import Order
    from fleet.core.event import Event
    from fleet.settings.sections import CoderSettings

    Template = Sequence[str | Sequence[str]]

#: Names that argv may use in braces. Other braces stay as they are.
FIELDS = ("model", "session", "prompt_file", "prompt", "folder")
_FIELD = re.compile(r"\{(" + "|".join(FIELDS) + r")\}")
PROMPT_FILE = "prompt.md"
#: Linux accepts no argument longer than 128 KiB.
LONGEST_ARGUMENT = 100 * 1024
HELP = "see docs/howto/add-a-coder.md."


class CommandCoder(Coder):
    """A coder defined by settings alone. Raises BadInput if its description contradicts itself."""

    def __init__(self, name: str, own: CoderSettings) -> None:
        argv = own.argv or ()
        _refuse(name, own)
        self.name = name
        self.program = os.path.expanduser(own.program or str(argv[0]))  # noqa: PTH111 - argv holds plain strings
        self.reads_env = own.pass_env
        self.tells_result = bool(own.output.success)
        self.tells_tools = own.output.tool is not None
        self.tells_tokens = own.output.input_tokens is not None or own.output.output_tokens is not None
        self.tells_cost = own.output.cost_usd is not None
        self.tells_context = own.output.context is not None
        self.resumes = SAME_CWD if "session" in _named(own.resume_argv or argv) else ""
        self._own = own
        self._reader = OutputParser(own.output)

    def command(self, order: Order) -> Command:
        """Return argv with its fields filled in. Raises BadInput or FleetError if a value cannot be an argument."""
        own = self._own
        session = order.session if is_session(order.session) else ""
        template = own.resume_argv if session and own.resume_argv else own.argv or ()
        values = {
            "model": self._model(order.model or "", template),
            "session": session,
            "folder": order.folder,
            "prompt_file": f"{order.folder}/{PROMPT_FILE}" if own.prompt == "file" else "",
            "prompt": self._argument(order.prompt) if own.prompt == "argument" else "",
        }
        words = list(_filled(template, values))
        if own.prompt == "argument" and "prompt" not in _named(template):
            words.append(values["prompt"])
        flags = (*order.flags, *(own.skip_flags if order.permissions == "skip" else ()))
        # At the end no option can consume following words. After `--` they would not be options.
        place = words.index("--") if "--" in words else len(words)
        argv = (self.program, *words[1:place], *flags, *words[place:])
        files = {PROMPT_FILE: order.prompt} if own.prompt == "file" else {}
        return Command(argv=argv, stdin=order.prompt if own.prompt == "stdin" else "", files=files)

    def parse(self, line: str) -> list[Event]:
        """Return the events of one line, using the paths and signs of the description."""
        return self._reader.events(line)

    def explain(self, status: int | None, stderr: str) -> Event | None:
        """Return the limit that stderr reports, judged by the texts that a line contains."""
        return self._reader.complaint(stderr)

    def window(self, model: str) -> int | None:
        return self._own.context_limit

    def config_env(self, folder: str) -> dict[str, str]:
        return {self._own.config_env: folder} if self._own.config_env else {}

    def _model(self, model: str, template: Template) -> str:
        bare = any(word.startswith("{model}") for word in _words(template))
        if "\0" in model or (model.startswith("-") and bare):
            hint = f'choose another model, or write "--model={{model}}" as one word in coders.{self.name}.argv'
            raise BadInput(f"coder {self.name!r} cannot be given the model {model!r}", hint=hint)
        return model

    def _argument(self, prompt: str) -> str:
        prompt = prompt.replace("\0", "")
        size = len(prompt.encode("utf-8", "replace"))
        if size > LONGEST_ARGUMENT:
            raise FleetError(
                f"the prompt has {size} bytes, too many for an argument of coder {self.name!r}",
                hint=f'set coders.{self.name}.prompt to "stdin" or "file", or shorten the task',
            )
        return f" {prompt}" if prompt.startswith("-") else prompt


def _refuse(name: str, own: CoderSettings) -> None:
    """Raise BadInput if parts of a description contradict each other."""
    where = f"coders.{name}"
    if not own.argv or not isinstance(own.argv[0], str) or not own.argv[0] or _FIELD.search(own.argv[0]):
        raise BadInput(f"{where}.argv must start with the name of a program", hint=HELP)
    for key, template in (("argv", own.argv), ("resume_argv", own.resume_argv)):
        if template is None:
            continue
        if any("\0" in word for word in _words(template)):
            raise BadInput(f"{where}.{key} contains a NUL character, which no argument can hold", hint=HELP)
        named = _named(template)
        if own.prompt == "file" and "prompt_file" not in named:
            raise BadInput(f'{where}.prompt is "file", and {key} does not name {{prompt_file}}', hint=HELP)
        for field, way in (("prompt_file", "file"), ("prompt", "argument")):
            if field in named and own.prompt != way:
                raise BadInput(f'{where}.{key} names {{{field}}}, so prompt must be "{way}"', hint=HELP)
    if own.output.format == "text" and (told := [key for key in PATHS if getattr(own.output, key) is not None]):
        raise BadInput(f'{where}.output.{told[0]} is a path, so format must be "jsonl"', hint=HELP)


def _filled(template: Template, values: Mapping[str, str]) -> Iterator[str]:
    """Yield the words of a template with their fields filled in. A word with an empty field is omitted.

    If it is in a list, the whole list is omitted.
    """
    for group in template:
        words = (group,) if isinstance(group, str) else group
        if all(values[field] for field in _named(words)):
            yield from (_FIELD.sub(lambda match: values[match[1]], word) for word in words)


def _words(template: Template) -> Iterator[str]:
    for group in template:
        yield from (group,) if isinstance(group, str) else group


def _named(template: Template) -> set[str]:
    return {field for word in _words(template) for field in _FIELD.findall(word)}
