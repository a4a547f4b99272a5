"""Every setting, once: its type, default, bounds and help. Files, messages and documents are made from this."""

from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

# A leading dash would be read as an option by the program the word is handed to.
_LINE = r"\A[^\s\-\x00-\x1f\x7f]([^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?\Z"
_CODER = r"\A[A-Za-z0-9][A-Za-z0-9_.-]*(:[A-Za-z_][A-Za-z0-9_.]*)?\Z"
_PREFIX = r"\A[A-Za-z0-9_-]{0,32}\Z"

CoderName = Annotated[str, Meta(pattern=_CODER, max_length=200, title="the name of a coder, or module:Class")]
Line = Annotated[str, Meta(pattern=_LINE, max_length=500, title="one line of text that does not start with a dash")]
Text = Annotated[str, Meta(pattern=r"\A[^\x00]*\Z", title="text")]
Permissions = Literal["skip", "user"]


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of settings: never changed, and an unknown key is refused."""


class CoderSettings(Section, frozen=True):
    """What holds for one coder."""

    model: Annotated[Line | None, Meta(description="The model this coder is told to use; unset: its own default.")] = (
        None
    )
    permissions: Annotated[
        Permissions | None, Meta(description="As `permissions` above, for this coder alone; unset: as above.")
    ] = None


class Consent(Section, frozen=True):
    """What the user has agreed to. Written by `fleet init`, never by `fleet config set`."""

    skip_permissions_at: Annotated[
        datetime | None,
        Meta(description='When you agreed that coders may run without asking. Without it "skip" counts as "user".'),
    ] = None


class Project(Section, frozen=True):
    """What the project is called and where its worktrees go."""

    name: Annotated[Line | None, Meta(description="What the project is called; unset: its directory's name.")] = None
    worktree_root: Annotated[
        Line | None, Meta(description="Where worktrees of this project are made; unset: in the home of fleet.")
    ] = None


class Agent(Section, frozen=True):
    """How agents are started in this project."""

    claude_flags: Annotated[Text | None, Meta(description="Further options for the claude program.")] = None


class Setup(Section, frozen=True):
    """How a new worktree is made ready."""

    credential_files: Annotated[
        tuple[Line, ...], Meta(description="Files to copy from the repository into each new worktree.")
    ] = ()
    commands: Annotated[tuple[Text, ...], Meta(description="Commands to run, in order, in each new worktree.")] = ()
    quick: Annotated[bool, Meta(description="Copy the files only; do not run the commands.")] = False


class Tmux(Section, frozen=True):
    """How tmux sessions are called."""

    prefix: Annotated[
        Annotated[str, Meta(pattern=_PREFIX, title="up to 32 letters, digits, _ or -")],
        Meta(description="What the names of the tmux sessions of agents start with."),
    ] = "ai_"


class Declared(Section, frozen=True):
    """All settings of fleet. `SCOPES` says which file takes which."""

    max_concurrent: Annotated[int, Meta(ge=1, le=1000, description="How many agents may work at the same time.")] = 3
    coder: Annotated[CoderName, Meta(description="The coder of tasks that do not name one.")] = "claude"
    model: Annotated[
        Line, Meta(description="The model of that coder. Another coder takes `[coders.<name>] model`, else its own.")
    ] = "sonnet"
    context_pressure_threshold_pct: Annotated[
        int,
        Meta(
            ge=1, le=100, description="End a session when it fills this percentage of its context; it goes on afresh."
        ),
    ] = 90
    permissions: Annotated[
        Permissions | None,
        Meta(
            description='"user": coders ask as their own settings say. "skip": they run every tool without asking;\n'
            "holds only after `fleet init --permissions skip`. Unset counts as user."
        ),
    ] = None
    project: Project = Project()
    agent: Agent = Agent()
    setup: Setup = Setup()
    tmux: Tmux = Tmux()
    consent: Consent = Consent()
    coders: dict[CoderName, CoderSettings] = {}


Scope = Literal["home", "project"]
HOME: Scope = "home"
PROJECT: Scope = "project"
SCOPES: dict[Scope, tuple[str, ...]] = {
    HOME: (
        "max_concurrent",
        "coder",
        "model",
        "context_pressure_threshold_pct",
        "permissions",
        "consent",
        "coders",
    ),
    PROJECT: ("coder", "model", "permissions", "project", "agent", "setup", "tmux", "coders"),
}

Path = tuple[str, ...]
# The spellings of ai-fleet's documents, sectioned and flat, so that its users keep their files.
ALIASES: dict[Path, Path] = {
    ("agent", "default"): ("coder",),
    ("default_agent",): ("coder",),
    ("claude_flags",): ("agent", "claude_flags"),
    ("worktree_root",): ("project", "worktree_root"),
    ("credential_files",): ("setup", "credential_files"),
    ("setup_commands",): ("setup", "commands"),
    ("quick_setup",): ("setup", "quick"),
    ("tmux_prefix",): ("tmux", "prefix"),
}
ANY = "<name>"


class Key(NamedTuple):
    """One setting as messages, files and documents speak of it."""

    path: Path
    type: Any
    default: Any
    help: str

    def shape(self) -> str:
        """What a value must be, in words."""
        return _shape(self.type)

    @property
    def kind(self) -> Any:
        """The plain type beneath: int, bool, str, tuple, datetime, or Literal."""
        return _kind(self.type)


def _keys(section: Any, above: Path) -> dict[Path, Key]:
    found: dict[Path, Key] = {}
    hints = get_type_hints(section, include_extras=True)
    for field in msgspec.structs.fields(section):
        path, kind = (*above, field.name), hints[field.name]
        if get_origin(kind) is dict:
            found |= _keys(get_args(kind)[1], (*path, ANY))
        elif isinstance(kind, type) and issubclass(kind, Section):
            found |= _keys(kind, path)
        else:
            help_text = next(meta.description for meta in reversed(kind.__metadata__) if meta.description)
            found[path] = Key(path, kind, field.default, help_text)
    return found


def _kind(kind: Any) -> Any:
    if get_origin(kind) in (tuple, Literal):
        return get_origin(kind)
    options = [option for option in get_args(kind) if option is not type(None)]
    return _kind(options[0]) if options else kind


def _shape(kind: Any) -> str:
    if get_origin(kind) is Annotated:
        inner, *metas = get_args(kind)
        titles = [meta.title for meta in metas if meta.title]
        bounds = [(meta.ge, meta.le) for meta in metas if meta.ge is not None]
        if bounds:
            return f"a whole number from {bounds[0][0]} to {bounds[0][1]}"
        return titles[-1] if titles else _shape(inner)
    options = [option for option in get_args(kind) if option is not type(None)]
    if get_origin(kind) is Literal:
        return " or ".join(f'"{option}"' for option in options)
    if get_origin(kind) is tuple:
        return f"a list, each {_shape(options[0])}"
    if options:
        return _shape(options[0])
    return {bool: "true or false", datetime: "a date and time"}.get(kind, "text")


KEYS: dict[Path, Key] = _keys(Declared, ())
