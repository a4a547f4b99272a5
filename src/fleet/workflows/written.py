"""A workflow as written: all keys known and all values of the right type. The graph is not checked yet."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from fleet.core import host as host_words
from fleet.core.errors import BadInput
from fleet.core.jsontext import encode
from fleet.core.record import Record
from fleet.core.workflow import CONTINUE, ON_FAILURE
from fleet.workflows.faults import nearest, short
from fleet.workflows.references import LISTS, bare_reference

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fleet.workflows.faults import Faults, Path

LONGEST_NAME = 100
LONGEST_LINE = 1000
MOST_STAGES = 5_000
MOST_ITEMS = 1_000
#: Default number of copies for a list that is not known yet.
USUAL_ITEMS = 10
MOST_ROUNDS = 20
MOST_RETRIES = 20
MOST_ARGS = 200
LONGEST_TIMEOUT = 30 * 86_400
NEW, INHERIT = "new", "inherit"

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,3})?) ?([smhd]?)")
#: `#` and `@` mark rounds and items; braces end a variable.
_NOT_IN_NAMES = "{}#@\"'`\\"


class Repeat(NamedTuple):
    """Repetition of a stage, or of all stages from another one up to it."""

    at_most: int
    until: str = ""
    back_to: str | int | None = None


class Each(NamedTuple):
    """The items for which a stage is copied: texts, or positions in a list that an earlier stage hands in."""

    items: tuple[str, ...]
    of: str = ""  # the list, in the form of a reference


class WrittenStage(Record):
    """A stage as written in the file."""

    path: Any  # its path in the file
    spelled: dict[str, str] = {}  # noqa: RUF012 - the key that was used for each field
    name: str = ""
    coder: str = ""
    model: str = ""
    prompt: str = ""
    inherits: bool = False
    depends_on: tuple[str | int, ...] = ()
    timeout_seconds: float | None = None
    verify: str = ""
    retries: int | None = None
    when: str = ""
    repeat: Repeat | None = None
    each: Each | None = None
    account: str = ""
    extra_args: tuple[str, ...] = ()
    reasoning_effort: str = ""
    no_changes: bool = False
    requires: tuple[str, ...] = ()
    host: str = ""


class WrittenFlow(Record):
    """A workflow as written in the file."""

    name: str = ""
    description: str = ""
    task_prompt: str = ""
    on_failure: str = CONTINUE
    timeout_seconds: float | None = None
    repo_hint: str = ""
    base: str = ""
    stages: tuple[WrittenStage, ...] = ()


class WorkflowKey(NamedTuple):
    """A key of the file: its field, a description of valid values, and a converter that raises ValueError."""

    field: str
    shape: str
    take: Callable[[Any], Any]


def written(data: Any, faults: Faults) -> WrittenFlow:
    """Return the workflow in plain data. Errors are added to `faults`."""
    if not isinstance(data, dict):
        faults.add((), f"a workflow is a table of keys, not {short(data)}")
        return WrittenFlow()
    fields = _fields(data, (), WORKFLOW_KEYS, "workflow", faults)
    stages = data.get("stages")
    if not isinstance(stages, list) or not stages:
        found = "no stages" if "stages" not in data else f"not {short(stages)}"
        faults.add(("stages",), f"stages must be a list with at least one stage; {found}", at_key=True)
        stages = []
    elif len(stages) > MOST_STAGES:
        faults.add(("stages",), f"{len(stages)} stages are more than {MOST_STAGES}", at_key=True)
        stages = []
    return WrittenFlow(**fields, stages=tuple(_stage(stage, number, faults) for number, stage in enumerate(stages)))


def _stage(data: Any, number: int, faults: Faults) -> WrittenStage:
    path = ("stages", number)
    if not isinstance(data, dict):
        faults.add(path, f"a stage is a table of keys, not {short(data)}")
        return WrittenStage(path=path)
    fields = _fields(data, path, STAGE_KEYS, "stage", faults)
    for key, others in (("name", ("name",)), ("prompt_template", ("prompt_template", "prompt"))):
        if not any(other in data for other in others):
            faults.add(path, f"stage {fields.get('name') or number} needs a {key}")
    spelled = {key.field: name for name, key in STAGE_KEYS.items() if name in data}
    return WrittenStage(path=path, spelled=spelled, **fields)


def _fields(
    data: Mapping[Any, Any], path: Path, known: Mapping[str, WorkflowKey], what: str, faults: Faults
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in data.items():
        if name not in known:
            if not (what == "workflow" and name == "stages"):
                hint = nearest(str(name), [*known, *(["stages"] if what == "workflow" else [])])
                faults.add((*path, name), f"unknown key {short(name)} of a {what}", hint, at_key=True)
            continue
        key = known[name]
        if key.field in found:
            faults.add((*path, name), f"{name!r} says again what another key has said", "keep one.", at_key=True)
        try:
            found[key.field] = key.take(value)
        except ValueError as error:
            detail = str(error)
            faults.add((*path, name), f"{name} must be {key.shape}, not {short(value)}{detail and f': {detail}'}")
    return found


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
        raise ValueError("it contains an invalid character")
    return value


def _words(value: Any) -> str:
    if not _text(value).strip():
        raise ValueError
    return str(value)


def _line(value: Any) -> str:
    if not _words(value).isprintable() or len(value) > LONGEST_LINE:
        raise ValueError
    return str(value)


def _name(value: Any) -> str:
    line = _line(value)
    if line != line.strip() or len(line) > LONGEST_NAME or any(char in _NOT_IN_NAMES for char in line):
        raise ValueError
    return line


def _choice(*words: str) -> Callable[[Any], str]:
    def take(value: Any) -> str:
        if value not in words:
            raise ValueError
        return str(value)

    return take


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _inherits(value: Any) -> bool:
    return _choice(NEW, INHERIT)(value) == INHERIT


def _whole(least: int, most: int) -> Callable[[Any], int]:
    def take(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError
        return value

    return take


def _timeout(value: Any) -> float:
    if isinstance(value, str) and (found := _DURATION.fullmatch(value.strip())):
        value = float(found[1]) * _UNITS[found[2]]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LONGEST_TIMEOUT:
        raise ValueError
    return float(value)


def _maybe(take: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap a converter so that JSON's null counts as unset."""

    def taken(value: Any) -> Any:
        return None if value is None else take(value)

    return taken


def _maybe_line(value: Any) -> str:
    return "" if value is None else _line(value)


def _args(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or len(value) > MOST_ARGS:
        raise ValueError
    return tuple(_text(each) for each in value)


def _of_host(take: Callable[[str], str]) -> Callable[[Any], str]:
    """Wrap a converter for names and labels of hosts. Its error message becomes part of the fault."""

    def taken(value: Any) -> str:
        try:
            return take(_text(value)) if value is not None else ""
        except BadInput as error:
            raise ValueError(str(error)) from error

    return taken


def _requires(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or len(value) >= host_words.MOST_WORDS:
        raise ValueError
    return tuple(_of_host(host_words.label)(each) for each in value)


def _stages_named(value: Any) -> tuple[str | int, ...]:
    if isinstance(value, str | int) and not isinstance(value, bool):
        raise ValueError(f"write [{encode(value)}]")
    if not isinstance(value, list | tuple):
        raise ValueError
    for each in value:
        if isinstance(each, bool) or not isinstance(each, str | int):
            raise ValueError
    return tuple(value)


def _each(value: Any) -> Each:
    if isinstance(value, str):
        value = {"of": value}
    if isinstance(value, dict):
        unknown = [str(key) for key in value if key not in ("of", "at_most")]
        if unknown:
            raise ValueError(f"unknown key {unknown[0]!r}")
        return Each(_numbers(value.get("at_most", USUAL_ITEMS)), _list_of(value.get("of")))
    if not isinstance(value, list | tuple):
        return Each(_numbers(value))
    if not 1 <= len(value) <= MOST_ITEMS:
        raise ValueError
    return Each(tuple(_words(str(each) if type(each) is int else each) for each in value))


def _numbers(value: Any) -> tuple[str, ...]:
    return tuple(str(number) for number in range(1, _whole(1, MOST_ITEMS)(value) + 1))


def _list_of(value: Any) -> str:
    reference = bare_reference(_line(value))
    if reference is None or reference.field not in LISTS:
        raise ValueError(f"of a stage {' and '.join(LISTS)} are lists")
    return str(value)


def _repeat(value: Any) -> Repeat:
    rounds = _whole(1, MOST_ROUNDS)
    if not isinstance(value, dict):
        return Repeat(rounds(value))
    unknown = [str(key) for key in value if key not in ("at_most", "until", "from")]
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r}")
    if "at_most" not in value:
        raise ValueError("it needs at_most")
    until = value.get("until", "")
    back_to = value.get("from")
    if isinstance(back_to, bool) or not isinstance(back_to, str | int | None) or not isinstance(until, str):
        raise ValueError
    return Repeat(rounds(value["at_most"]), until, back_to)


_TIMEOUT = WorkflowKey("timeout_seconds", 'a time like 600, "10m" or "2h", at most 30 days', _maybe(_timeout))
_A_LINE = "one line of text"
_NAME_SHAPE = f"one line of at most {LONGEST_NAME} characters without {' '.join(_NOT_IN_NAMES)}"

WORKFLOW_KEYS = {
    "name": WorkflowKey("name", _NAME_SHAPE, _name),
    "description": WorkflowKey("description", "text", _text),
    "task_prompt": WorkflowKey("task_prompt", "text", _text),
    "on_failure": WorkflowKey("on_failure", " or ".join(map(repr, ON_FAILURE)), _choice(*ON_FAILURE)),
    "timeout": _TIMEOUT,
    "timeout_seconds": _TIMEOUT,
    "repo_path": WorkflowKey("repo_hint", _A_LINE, _maybe_line),
    "base_ref": WorkflowKey("base", _A_LINE, _maybe_line),
}
STAGE_KEYS = {
    "name": WorkflowKey("name", _NAME_SHAPE, _name),
    "executor": WorkflowKey("coder", _A_LINE, _maybe_line),
    "coder": WorkflowKey("coder", _A_LINE, _maybe_line),
    "model": WorkflowKey("model", _A_LINE, _maybe_line),
    "prompt_template": WorkflowKey("prompt", "text", _words),
    "prompt": WorkflowKey("prompt", "text", _words),
    "worktree_strategy": WorkflowKey("inherits", f"{NEW!r} or {INHERIT!r}", _inherits),
    "depends_on": WorkflowKey("depends_on", "a list of names of stages, or of their numbers from 0", _stages_named),
    "timeout": _TIMEOUT,
    "timeout_seconds": _TIMEOUT,
    "verify": WorkflowKey("verify", _A_LINE, _maybe_line),
    "retries": WorkflowKey("retries", f"a whole number from 0 to {MOST_RETRIES}", _maybe(_whole(0, MOST_RETRIES))),
    "when": WorkflowKey("when", 'a condition like stages.review.status == "completed"', _words),
    "repeat": WorkflowKey(
        "repeat", f"a number of rounds from 1 to {MOST_ROUNDS}, or a table of at_most, until and from", _repeat
    ),
    "each": WorkflowKey(
        "each",
        f"a list of at most {MOST_ITEMS} texts, a number, a list of an earlier stage like stages.plan.next_steps, "
        "or a table of of and at_most",
        _each,
    ),
    "account": WorkflowKey("account", _A_LINE, _maybe_line),
    "extra_args": WorkflowKey("extra_args", "a list of words", _args),
    "reasoning_effort": WorkflowKey("reasoning_effort", _A_LINE, _maybe_line),
    "no_changes": WorkflowKey("no_changes", "true or false", _flag),
    "requires": WorkflowKey("requires", "a list of labels that a host must offer", _requires),
    "host": WorkflowKey("host", "the name of a host", _of_host(host_words.name)),
}
