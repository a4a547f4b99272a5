"""The described coder: any command line program, configured by `[coders.<name>]` in the settings."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from fleet.coders.base import SAME_CWD, Coder, Command
from fleet.coders.command_output import Reader, is_session
from fleet.config.described import PATHS
from fleet.core.errors import BadInput, FleetError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fleet.coders.base import Order
    from fleet.config.sections import CoderSettings
    from fleet.core.event import Event

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
        self._reader = Reader(own.output)

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
            hint = f'name another, or write "--model={{model}}" as one word in coders.{self.name}.argv.'
            raise BadInput(f"coder {self.name!r} cannot be given the model {model!r}", hint=hint)
        return model

    def _argument(self, prompt: str) -> str:
        prompt = prompt.replace("\0", "")
        size = len(prompt.encode("utf-8", "replace"))
        if size > LONGEST_ARGUMENT:
            raise FleetError(
                f"the prompt has {size} bytes, too many for coder {self.name!r}, which takes it as an argument",
                hint=f'set coders.{self.name}.prompt to "stdin" or "file", or shorten the task.',
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
            raise BadInput(f"{where}.{key} has a NUL in it, which no argument can hold", hint=HELP)
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
