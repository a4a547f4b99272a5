"""Settings tables about hosts, coders, agents, limits and the supervisor, with type, default, bounds and help."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, field

from fleet.config.described import Output, Template
from fleet.config.kinds import (
    AccountName,
    CoderName,
    Commands,
    Dollars,
    Folder,
    Line,
    OffOrSeconds,
    Permissions,
    Program,
    Seconds,
    Section,
    Slots,
    Text,
    Times,
    Tokens,
    Variable,
    Variables,
)

# The same rule as in `core.host` for a task's requirements, which works without a pattern.
HostName = Annotated[
    str,
    Meta(
        pattern=r"\A[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z",
        title="the name of a host: 1 to 100 letters, digits, _ . or -, a letter or digit first",
    ),
]
HostLabel = Annotated[
    str,
    Meta(
        pattern=r"\A[A-Za-z0-9][A-Za-z0-9_.=+-]{0,63}\Z",
        title="a label: 1 to 64 letters, digits, _ . = + or -, a letter or digit first",
    ),
]
_PLACE = Annotated[
    str,
    Meta(
        pattern=r"\A(|([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5})\Z",
        max_length=300,
        title='an address and a port such as "10.0.0.7:7717", or nothing',
    ),
]


class HostSettings(Section, frozen=True):
    """This host's place among the hosts that share a queue."""

    name: Annotated[
        HostName | None,
        Meta(description="What this host is called; unset: the machine's name. `fleet run --name` says it too."),
    ] = None
    labels: Annotated[
        Annotated[tuple[HostLabel, ...], Meta(max_length=32)],
        Meta(
            description="What it offers: tasks that require a label run only where it stands. `--labels` says it too."
        ),
    ] = ()
    listen: Annotated[
        _PLACE,
        Meta(description="Where its supervisor answers other hosts about logs, such as 10.0.0.5:7717; empty: nowhere."),
    ] = ""


class CoderSettings(Section, frozen=True):
    """Settings for one coder."""

    model: Annotated[Line | None, Meta(description="The model this coder is told to use; unset: its own default.")] = (
        None
    )
    permissions: Annotated[
        Permissions | None, Meta(description="As `permissions` above, for this coder alone; unset: as above.")
    ] = None
    max_concurrent: Annotated[
        Slots | None, Meta(description="How many agents of this coder may work at the same time; unset: any number.")
    ] = None
    flags: Annotated[tuple[Text, ...], Meta(description="Further options for its program, each word by itself.")] = ()
    env: Annotated[Variables, Meta(description="Variables that agents of this coder get, by name.")] = field(
        default_factory=dict
    )
    context_limit: Annotated[
        Tokens | None, Meta(description="How many tokens fit into its context; unset: what the coder itself tells.")
    ] = None
    program: Annotated[
        Program | None, Meta(description="The program to start in place of the coder's own; unset: its own, from PATH.")
    ] = None
    argv: Annotated[
        Template | None,
        Meta(
            description="Describes a coder of your own: the program and its arguments, in which {model}, {session},\n"
            "{prompt_file}, {prompt} and {folder} are filled in. See docs/howto/add-a-coder.md."
        ),
    ] = None
    resume_argv: Annotated[
        Template | None, Meta(description="The same for a run that goes on in an earlier session; unset: argv.")
    ] = None
    prompt: Annotated[
        Literal["stdin", "file", "argument"],
        Meta(description="How a coder of your own gets its prompt. Everybody on the machine can read an argument."),
    ] = "stdin"
    skip_flags: Annotated[
        tuple[Text, ...],
        Meta(description="What lets a coder of your own run tools unasked; added where permissions are skip."),
    ] = ()
    pass_env: Annotated[
        tuple[Variable, ...],
        Meta(description="Variables of the supervisor that agents of a coder of your own get, besides those all get."),
    ] = ()
    project_files: Annotated[
        tuple[Line, ...] | None,
        Meta(
            description="Files of a project from which this coder runs commands, as globs; see docs/howto/trust.md.\n"
            "Unset: those that fleet knows of it, or of any coder."
        ),
    ] = None
    config_env: Annotated[
        Variable | None,
        Meta(description="The variable by which a coder of your own finds the config_dir of an account."),
    ] = None
    output: Output = Output()


class AccountSettings(Section, frozen=True, omit_defaults=True):
    """A subscription or key of a coder."""

    name: Annotated[AccountName, Meta(description="Needed: what the account is called; once per coder.")]
    coder: Annotated[CoderName, Meta(description="Needed: the coder whose account it is.")]
    config_dir: Annotated[
        Folder | None, Meta(description="The folder with its login and settings; unset: the coder's usual one.")
    ] = None
    env: Annotated[Variables, Meta(description="Variables that agents with this account get, by name.")] = field(
        default_factory=dict
    )
    secrets: Annotated[
        Commands,
        Meta(
            description="Variables whose values a command tells, in the first line it prints; each a list of words,\n"
            "and no shell reads them."
        ),
    ] = field(default_factory=dict)
    order: Annotated[
        Annotated[int, Meta(ge=-1000, le=1000)],
        Meta(
            description="Accounts with a lower number are used first; those with the same, as they stand in the file."
        ),
    ] = 0
    max_concurrent: Annotated[
        Slots | None, Meta(description="How many agents of this account may work at the same time; unset: any number.")
    ] = None
    start_interval_seconds: Annotated[
        Annotated[float, Meta(ge=0, le=3_600)],
        Meta(
            description="The pause between two starts with this account: a crowd that starts at once meets its limits."
        ),
    ] = 1.0


class Price(Section, frozen=True):
    """The price of a model, in dollars per million tokens."""

    input: Annotated[
        Dollars | None, Meta(description="Dollars per million tokens sent; unset: as in fleet's table.")
    ] = None
    output: Annotated[
        Dollars | None, Meta(description="Dollars per million tokens received; unset: as in fleet's table.")
    ] = None
    cache_read: Annotated[
        Dollars | None, Meta(description="Dollars per million tokens read from a cache; unset: as input.")
    ] = None
    cache_write: Annotated[
        Dollars | None, Meta(description="Dollars per million tokens put into a cache; unset: as input.")
    ] = None


class Consent(Section, frozen=True):
    """The user's recorded consent. Written by `fleet init`, never by `fleet config set`."""

    skip_permissions_at: Annotated[
        datetime | None,
        Meta(description='When you agreed that coders may run without asking. Without it "skip" counts as "user".'),
    ] = None


class Agent(Section, frozen=True):
    """Settings for starting agents."""

    claude_flags: Annotated[
        Text | None, Meta(description="Further options for the claude program, as a shell would split them.")
    ] = None
    env: Annotated[Variables, Meta(description="Variables that every agent gets, by name.")] = field(
        default_factory=dict
    )
    pass_env: Annotated[
        tuple[Variable, ...],
        Meta(description="Variables of the supervisor that agents get besides the usual ones; the others stay out."),
    ] = ()
    mode: Annotated[
        Literal["interactive", "headless"] | None,
        Meta(
            description="How `create`, `fanout` and `multi` start agents: in a terminal of their own, or without one.\n"
            "Unset: interactive where tmux is installed."
        ),
    ] = None


class Limits(Section, frozen=True):
    """Limits on retries and pauses, so that a person eventually looks at a failing task. Every limit is finite."""

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
    rate_limit_retries: Annotated[
        Times, Meta(description="How often in a row an account may be told to slow down before it is parked.")
    ] = 3
    rate_limit_base_seconds: Annotated[
        Annotated[float, Meta(ge=0.1, le=3_600)],
        Meta(description="The first pause of an account that is told to slow down; it doubles each time."),
    ] = 4.0
    rate_limit_max_seconds: Annotated[
        Annotated[float, Meta(ge=0.1, le=86_400)], Meta(description="The longest of these pauses.")
    ] = 60.0
    max_interactive: Annotated[
        Slots, Meta(description="How many interactive agents may be open; they take no slot of max_concurrent.")
    ] = 100


class Watchdogs(Section, frozen=True):
    """Limits at which fleet stops an agent. A task's own limits, a JSON object with these names, have priority."""

    first_event_seconds: Annotated[
        OffOrSeconds, Meta(description="Stop an agent that has not said a word for so long; 0: never.")
    ] = 120
    silence_seconds: Annotated[
        OffOrSeconds,
        Meta(description="Stop an agent when output, transcript and CPU have all been quiet for so long; 0: never."),
    ] = 900
    wall_seconds: Annotated[Seconds, Meta(description="Stop an agent that has been at work for so long.")] = 14_400
    result_grace_seconds: Annotated[
        Seconds, Meta(description="Stop an agent that is still there so long after its result.")
    ] = 30
    limit_seconds: Annotated[
        Seconds, Meta(description="Stop an agent that for so long was only refused: fleet, not its coder, waits.")
    ] = 30
    stop_grace_seconds: Annotated[
        Seconds, Meta(description="How long an agent that is asked to stop may take before it is killed.")
    ] = 10
    max_tokens: Annotated[
        Tokens | None,
        Meta(description="Stop an agent that has used so many tokens; unset: never."),
    ] = None
    max_cost_usd: Annotated[
        Annotated[float, Meta(ge=0.01, le=1_000_000)] | None,
        Meta(
            description="Stop an agent that has cost so many dollars, start none without a known price; unset: never."
        ),
    ] = None


class Supervising(Section, frozen=True):
    """Settings of the supervisor."""

    poll_seconds: Annotated[
        Annotated[float, Meta(ge=0.1, le=3_600)], Meta(description="How often to look for work nobody announced.")
    ] = 2
    claim_seconds: Annotated[
        Annotated[int, Meta(ge=3, le=86_400)], Meta(description="How long a claim lasts unless it is renewed.")
    ] = 60
    start_interval_seconds: Annotated[
        Annotated[float, Meta(ge=0, le=60)],
        Meta(description="The pause between starts, once 25 agents were started without one."),
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
    raw_days: Annotated[
        Annotated[int, Meta(ge=1, le=3650)],
        Meta(description="For how many days the raw output of an ended run is kept; all else of it stays."),
    ] = 30
