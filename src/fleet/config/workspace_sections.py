"""Settings tables about projects, worktrees and terminals, with type, default, bounds and help."""

from typing import Annotated

from msgspec import Meta

from fleet.config.kinds import Folder, Line, Seconds, Section, Text

_SESSION = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{0,32}\Z", title="up to 32 letters, digits, _ or -")]
_SOCKET = Annotated[
    str, Meta(pattern=r"\A[A-Za-z0-9_][A-Za-z0-9_-]{0,31}\Z", title="1 to 32 letters, digits, _ or -, no - at first")
]
#: Directories that tools recreate. An ignored directory with one of these names is not worth saving.
REGENERATED = (
    *("node_modules", "__pycache__", ".venv", "venv", ".tox", ".gradle", ".next"),
    *(".mypy_cache", ".ruff_cache", ".pytest_cache"),
)


class Project(Section, frozen=True):
    """The project's name, the folder of its worktrees, and rules for work in it."""

    name: Annotated[Line | None, Meta(description="What the project is called; unset: its directory's name.")] = None
    worktree_root: Annotated[
        Line | None, Meta(description="Where worktrees of this project are made; unset: in the home of fleet.")
    ] = None
    branch_pattern: Annotated[
        tuple[Line, ...],
        Meta(description='Globs of which the name of a new branch must fit one, such as "fix-*"; none: any name does.'),
    ] = ()
    exclusive: Annotated[
        bool,
        Meta(description="Tasks that work in the project's own directory take turns; worktrees are not affected."),
    ] = False


class Setup(Section, frozen=True):
    """Preparation of a new worktree, and steps before its removal."""

    credential_files: Annotated[
        tuple[Line, ...], Meta(description="Files to copy from the repository into each new worktree.")
    ] = ()
    commands: Annotated[tuple[Text, ...], Meta(description="Commands to run, in order, in each new worktree.")] = ()
    quick: Annotated[bool, Meta(description="Copy the files only; do not run the commands.")] = False
    seconds: Annotated[Seconds, Meta(description="How long each of these commands may take.")] = 900
    teardown: Annotated[
        tuple[Text, ...], Meta(description="Commands to run, in order, in a worktree before it is removed.")
    ] = ()


class Ports(Section, frozen=True):
    """The block of ports reserved for each worktree, passed as FLEET_PORT and PORT."""

    base: Annotated[
        Annotated[int, Meta(ge=1024, le=65_000)],
        Meta(description="Where the blocks begin; FLEET_PORT_BASE says it too."),
    ] = 20_000
    count: Annotated[Annotated[int, Meta(ge=1, le=1_000)], Meta(description="How many ports are in a block.")] = 10


class Tmux(Section, frozen=True):
    """Names and settings of the tmux sessions of interactive agents."""

    prefix: Annotated[
        _SESSION,
        Meta(description="What the names of the tmux sessions of agents start with."),
    ] = "ai_"
    socket: Annotated[_SOCKET, Meta(description="The tmux server that has them: `tmux -L` with this name.")] = "fleet"
    config: Annotated[
        Folder | None, Meta(description="The file of settings for that server; unset: none, not even your usual one.")
    ] = None


class Saving(Section, frozen=True):
    """Rules for saving a worktree's files before its removal."""

    ignored_mb: Annotated[
        Annotated[int, Meta(ge=0, le=10**6)],
        Meta(description="How much of what git ignores is saved; a worktree with more of it is not removed."),
    ] = 64
    days: Annotated[
        Annotated[int, Meta(ge=1, le=36_500)],
        Meta(description="For how many days saved work and the tips of deleted branches are kept under refs/fleet/."),
    ] = 90
    skip: Annotated[
        tuple[Line, ...],
        Meta(description="Names of ignored directories that are not saved, because a tool makes them again."),
    ] = REGENERATED
