"""The tables of settings and what stands in each, with type, default, bounds and help."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

# A leading dash would be read as an option by the program the word is handed to.
_LINE = r"\A[^\s\-\x00-\x1f\x7f]([^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?\Z"
_CODER = r"\A[A-Za-z0-9][A-Za-z0-9_.-]*(:[A-Za-z_][A-Za-z0-9_.]*)?\Z"
_PREFIX = r"\A[A-Za-z0-9_-]{0,32}\Z"

CoderName = Annotated[str, Meta(pattern=_CODER, max_length=200, title="the name of a coder, or module:Class")]
Line = Annotated[str, Meta(pattern=_LINE, max_length=500, title="one line of text that does not start with a dash")]
Text = Annotated[str, Meta(pattern=r"\A[^\x00]*\Z", title="text")]
Variable = Annotated[str, Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_]*\Z", max_length=200, title="the name of a variable")]
Permissions = Literal["skip", "user"]
Slots = Annotated[int, Meta(ge=1, le=1000)]
Times = Annotated[int, Meta(ge=0, le=500)]  # below a thousand: the policy packs three of them into one number
Seconds = Annotated[float, Meta(ge=0.1, le=2_592_000)]


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
    max_concurrent: Annotated[
        Slots | None, Meta(description="How many agents of this coder may work at the same time; unset: any number.")
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
    """How agents are started."""

    claude_flags: Annotated[Text | None, Meta(description="Further options for the claude program.")] = None
    env: Annotated[
        Annotated[dict[Variable, Text], Meta(title="a table of names and texts")],
        Meta(description="Variables that every agent gets, by name."),
    ] = {}
    pass_env: Annotated[
        tuple[Variable, ...],
        Meta(description="Variables of the supervisor that agents get besides the usual ones; the others stay out."),
    ] = ()


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


class Limits(Section, frozen=True):
    """How often a task may come back before a person has to look at it. Nothing comes back for ever."""

    retry_limit: Annotated[
        Annotated[int, Meta(ge=1, le=500)], Meta(description="The failure that blocks a task: 2 is one retry.")
    ] = 2
    continue_limit: Annotated[
        Times, Meta(description="How often an agent that stopped without having finished is asked to go on.")
    ] = 3
    context_limit: Annotated[
        Times, Meta(description="How often a task starts afresh because its context was full.")
    ] = 5
    lost_limit: Annotated[Times, Meta(description="How often a task starts again because its agent vanished.")] = 5
    limit_waits: Annotated[Times, Meta(description="How often a task may wait for the limits of an account.")] = 20
    max_interactive: Annotated[
        Slots, Meta(description="How many interactive agents may be open; they take no slot of max_concurrent.")
    ] = 100


class Watchdogs(Section, frozen=True):
    """When an agent is stopped. A task's own limits, a JSON object with these names, count before these."""

    first_event_seconds: Annotated[Seconds, Meta(description="Stop an agent that has not said a word for so long.")] = (
        120
    )
    silence_seconds: Annotated[
        Seconds, Meta(description="Stop an agent when output, transcript and CPU have all been quiet for so long.")
    ] = 900
    wall_seconds: Annotated[Seconds, Meta(description="Stop an agent that has been at work for so long.")] = 14_400
    result_grace_seconds: Annotated[
        Seconds, Meta(description="Stop an agent that is still there so long after its result.")
    ] = 30
    stop_grace_seconds: Annotated[
        Seconds, Meta(description="How long an agent that is asked to stop may take before it is killed.")
    ] = 10
    max_tokens: Annotated[
        Annotated[int, Meta(ge=1, le=10**12)] | None,
        Meta(description="Stop an agent that has used so many tokens; unset: never."),
    ] = None
    max_cost_usd: Annotated[
        Annotated[float, Meta(ge=0.01, le=1_000_000)] | None,
        Meta(description="Stop an agent that has cost so many dollars; unset: never."),
    ] = None


class Supervising(Section, frozen=True):
    """How the supervisor works."""

    poll_seconds: Annotated[
        Annotated[float, Meta(ge=0.1, le=3_600)], Meta(description="How often to look for work nobody announced.")
    ] = 2
    claim_seconds: Annotated[
        Annotated[int, Meta(ge=10, le=86_400)], Meta(description="How long a claim lasts unless it is renewed.")
    ] = 60
    start_interval_seconds: Annotated[
        Annotated[float, Meta(ge=0, le=60)],
        Meta(description="The pause between starts, once ten agents were started without one."),
    ] = 0.25
    min_free_disk_mb: Annotated[
        Annotated[int, Meta(ge=0, le=10**9)],
        Meta(description="Start nothing new with less than this free on the disk."),
    ] = 1_024
    min_free_memory_mb: Annotated[
        Annotated[int, Meta(ge=0, le=10**9)],
        Meta(description="Start nothing new with less memory than this available."),
    ] = 512
    max_output_mb: Annotated[
        Annotated[int, Meta(ge=1, le=10**6)], Meta(description="How much of what a run prints is kept.")
    ] = 512
