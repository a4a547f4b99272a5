"""Settings tables about projects, worktrees and terminals, with type, default, bounds and help."""

from typing import Annotated

from msgspec import Meta

from fleet.config.kinds import Folder, Line, Seconds, Section, Text

_SESSION = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{0,32}\Z", title="up to 32 letters, digits, _ or -")]
_SOCKET = Annotated[
    str,
    Meta(pattern=r"\A[A-Za-z0-9_][A-Za-z0-9_-]{0,31}\Z", title="1 to 32 letters, digits, _ or -, not starting with -"),
]
#: Directories that tools recreate. An ignored directory with one of these names is not worth saving.
REGENERATED = (
    *("node_modules", "__pycache__", ".venv", "venv", ".tox", ".gradle", ".next"),
    *(".mypy_cache", ".ruff_cache", ".pytest_cache"),
)


class Project(Section, frozen=True):
    """The project's name, the folder of its worktrees, and rules for work in it."""

    name: Annotated[Line | None, Meta(description="Name of the project. Default: the name of its directory.")] = None
    worktree_root: Annotated[
        Line | None,
        Meta(description="Directory for the worktrees of this project. Default: a directory in fleet's home."),
    ] = None
    branch_pattern: Annotated[
        tuple[Line, ...],
        Meta(
            description='A new branch name must match one of these globs, such as "fix-*".\n'
            "An empty list allows any name."
        ),
    ] = ()
    exclusive: Annotated[
        bool,
        Meta(description="Run tasks in the project's own directory one at a time. Worktrees are not affected."),
    ] = False


class Setup(Section, frozen=True):
    """Preparation of a new worktree, and steps before its removal."""

    credential_files: Annotated[
        tuple[Line, ...], Meta(description="Files to copy from the repository into each new worktree.")
    ] = ()
    commands: Annotated[tuple[Text, ...], Meta(description="Commands to run in each new worktree, in this order.")] = ()
    quick: Annotated[bool, Meta(description="Copy the files, but do not run the commands.")] = False
    seconds: Annotated[Seconds, Meta(description="Timeout of each setup and teardown command, in seconds.")] = 900
    teardown: Annotated[
        tuple[Text, ...], Meta(description="Commands to run in a worktree before its removal, in this order.")
    ] = ()


class Ports(Section, frozen=True):
    """The block of ports reserved for each worktree, passed as FLEET_PORT and PORT."""

    base: Annotated[
        Annotated[int, Meta(ge=1024, le=65_000)],
        Meta(description="First port of the first block. The variable FLEET_PORT_BASE overrides this setting."),
    ] = 20_000
    count: Annotated[Annotated[int, Meta(ge=1, le=1_000)], Meta(description="Number of ports in each block.")] = 10


class Tmux(Section, frozen=True):
    """Names and settings of the tmux sessions of interactive agents."""

    prefix: Annotated[
        _SESSION,
        Meta(description="Prefix of the names of agents' tmux sessions."),
    ] = "ai_"
    socket: Annotated[
        _SOCKET, Meta(description="Name of the tmux server for these sessions, as in `tmux -L NAME`.")
    ] = "fleet"
    config: Annotated[
        Folder | None,
        Meta(description="Configuration file of that tmux server. Default: no file, not even your usual one."),
    ] = None


class Saving(Section, frozen=True):
    """Rules for saving a worktree's files before its removal."""

    ignored_mb: Annotated[
        Annotated[int, Meta(ge=0, le=10**6)],
        Meta(
            description="Maximum size of git-ignored files to save, in MB.\n"
            "fleet does not remove a worktree with more of them."
        ),
    ] = 64
    days: Annotated[
        Annotated[int, Meta(ge=1, le=36_500)],
        Meta(description="Number of days to keep saved work and the tips of deleted branches under refs/fleet/."),
    ] = 90
    skip: Annotated[
        tuple[Line, ...],
        Meta(description="Names of ignored directories that fleet does not save, because a tool recreates them."),
    ] = REGENERATED
