"""Settings tables about hosts, coders, agents, limits and the supervisor, with type, default, bounds and help."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, field

from fleet.settings.described_coder import OutputSettings, Template
from fleet.settings.kinds import (
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
        title="the name of a host: 1 to 100 letters, digits, _ . or -, starting with a letter or digit",
    ),
]
HostLabel = Annotated[
    str,
    Meta(
        pattern=r"\A[A-Za-z0-9][A-Za-z0-9_.=+-]{0,63}\Z",
        title="a label: 1 to 64 letters, digits, _ . = + or -, starting with a letter or digit",
    ),
]
_PLACE = Annotated[
    str,
    Meta(
        pattern=r"\A(|([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5})\Z",
        max_length=300,
        title='an address and a port such as "10.0.0.7:7717", or empty',
    ),
]


class HostSettings(Section, frozen=True):
    """This host's place among the hosts that share a queue."""

    name: Annotated[
        HostName | None,
        Meta(
            description="Name of this host.\n"
            "Default: the name of the machine. `fleet run --name` overrides this setting."
        ),
    ] = None
    labels: Annotated[
        Annotated[tuple[HostLabel, ...], Meta(max_length=32)],
        Meta(
            description="Labels that this host offers to tasks that require them. `fleet run --labels` overrides "
            "this setting."
        ),
    ] = ()
    listen: Annotated[
        _PLACE,
        Meta(
            description="Address at which the supervisor serves logs to other hosts, such as 10.0.0.5:7717.\n"
            "If empty, it serves none."
        ),
    ] = ""


class CoderSettings(Section, frozen=True):
    """Settings for one coder."""

    model: Annotated[Line | None, Meta(description="Model for this coder. Default: the coder's own default.")] = None
    permissions: Annotated[
        Permissions | None,
        Meta(description="Same as `permissions` above, for this coder only. Default: the value above."),
    ] = None
    max_concurrent: Annotated[
        Slots | None,
        Meta(description="Maximum number of agents of this coder that run at the same time. Default: no limit."),
    ] = None
    flags: Annotated[
        tuple[Text, ...], Meta(description="Additional options for the coder's program, one word per element.")
    ] = ()
    env: Annotated[Variables, Meta(description="Environment variables for agents of this coder, by name.")] = field(
        default_factory=dict
    )
    context_limit: Annotated[
        Tokens | None,
        Meta(description="Size of the coder's context in tokens. Default: the size that the coder reports."),
    ] = None
    program: Annotated[
        Program | None,
        Meta(description="Program to start instead of the coder's own. Default: the coder's own program, from PATH."),
    ] = None
    argv: Annotated[
        Template | None,
        Meta(
            description="Program and arguments of a custom coder. fleet fills in {model}, {session}, {prompt_file}, "
            "{prompt} and {folder}.\n"
            "See docs/howto/add-a-coder.md."
        ),
    ] = None
    resume_argv: Annotated[
        Template | None,
        Meta(description="Program and arguments for a run that resumes an earlier session. Default: argv."),
    ] = None
    prompt: Annotated[
        Literal["stdin", "file", "argument"],
        Meta(description="Way to pass the prompt to a custom coder. Every user of the machine can read an argument."),
    ] = "stdin"
    skip_flags: Annotated[
        tuple[Text, ...],
        Meta(
            description="Options that let a custom coder run tools without asking.\n"
            'fleet adds them if permissions are "skip".'
        ),
    ] = ()
    pass_env: Annotated[
        tuple[Variable, ...],
        Meta(description="Additional variables of the supervisor to pass to agents of a custom coder."),
    ] = ()
    project_files: Annotated[
        tuple[Line, ...] | None,
        Meta(
            description="Globs of project files from which this coder runs commands; see docs/howto/trust.md.\n"
            "Default: the files known for this coder, else for any coder."
        ),
    ] = None
    config_env: Annotated[
        Variable | None,
        Meta(description="Environment variable that passes the config_dir of an account to a custom coder."),
    ] = None
    output: OutputSettings = OutputSettings()


class AccountSettings(Section, frozen=True, omit_defaults=True):
    """A subscription or key of a coder."""

    name: Annotated[
        AccountName, Meta(description="Required: name of the account, unique among the accounts of its coder.")
    ]
    coder: Annotated[CoderName, Meta(description="Required: coder that the account belongs to.")]
    config_dir: Annotated[
        Folder | None,
        Meta(description="Folder with the login and settings of the account. Default: the coder's usual folder."),
    ] = None
    env: Annotated[Variables, Meta(description="Environment variables for agents with this account, by name.")] = field(
        default_factory=dict
    )
    secrets: Annotated[
        Commands,
        Meta(
            description="Variable names and commands; the first line of a command's output is the value.\n"
            "A command is a list of words and runs without a shell."
        ),
    ] = field(default_factory=dict)
    order: Annotated[
        Annotated[int, Meta(ge=-1000, le=1000)],
        Meta(
            description="fleet uses accounts with lower numbers first.\n"
            "Accounts with the same number keep their order in the file."
        ),
    ] = 0
    max_concurrent: Annotated[
        Slots | None,
        Meta(description="Maximum number of agents of this account that run at the same time. Default: no limit."),
    ] = None
    start_interval_seconds: Annotated[
        Annotated[float, Meta(ge=0, le=3_600)],
        Meta(
            description="Pause between two starts with this account, in seconds.\n"
            "Many simultaneous starts would reach its limits."
        ),
    ] = 1.0


class Price(Section, frozen=True):
    """The price of a model, in dollars per million tokens."""

    input: Annotated[
        Dollars | None, Meta(description="Dollars per million tokens sent. Default: the price in fleet's table.")
    ] = None
    output: Annotated[
        Dollars | None, Meta(description="Dollars per million tokens received. Default: the price in fleet's table.")
    ] = None
    cache_read: Annotated[
        Dollars | None, Meta(description="Dollars per million tokens read from a cache. Default: the price of `input`.")
    ] = None
    cache_write: Annotated[
        Dollars | None,
        Meta(description="Dollars per million tokens written to a cache. Default: the price of `input`."),
    ] = None


class Consent(Section, frozen=True):
    """The user's recorded consent. Written by `fleet init`, never by `fleet config set`."""

    skip_permissions_at: Annotated[
        datetime | None,
        Meta(
            description="Time at which you agreed that coders may run without asking.\n"
            'If unset, "skip" counts as "user".'
        ),
    ] = None


class AgentSettings(Section, frozen=True):
    """Settings for starting agents."""

    claude_flags: Annotated[
        Text | None, Meta(description="Additional options for the claude program, split into words as in a shell.")
    ] = None
    env: Annotated[Variables, Meta(description="Environment variables for every agent, by name.")] = field(
        default_factory=dict
    )
    pass_env: Annotated[
        tuple[Variable, ...],
        Meta(
            description="Additional variables of the supervisor to pass to agents, besides the usual ones.\n"
            "fleet passes no others."
        ),
    ] = ()
    mode: Annotated[
        Literal["interactive", "headless"] | None,
        Meta(
            description="Start agents of `create`, `fanout` and `multi` in their own terminal (interactive) or "
            "without one (headless).\n"
            "Default: interactive if tmux is installed."
        ),
    ] = None


class LimitSettings(Section, frozen=True):
    """Limits on retries and pauses, so that a person eventually looks at a failing task. Every limit is finite."""

    retry_limit: Annotated[
        Annotated[int, Meta(ge=1, le=500)],
        Meta(description="Number of failures that blocks a task. With 2, fleet retries the task once."),
    ] = 2
    continue_limit: Annotated[
        Times, Meta(description="Maximum number of times that fleet asks an agent that stopped early to continue.")
    ] = 3
    context_limit: Annotated[
        Times,
        Meta(description="Maximum number of times that a task restarts in a new session because its context was full."),
    ] = 5
    lost_limit: Annotated[
        Times, Meta(description="Maximum number of times that a task restarts because its agent disappeared.")
    ] = 5
    limit_waits: Annotated[
        Times, Meta(description="Maximum number of times that a task waits for the limits of an account.")
    ] = 20
    rate_limit_retries: Annotated[
        Times,
        Meta(
            description="Maximum number of consecutive rate limit errors of an account before fleet parks the account."
        ),
    ] = 3
    rate_limit_base_seconds: Annotated[
        Annotated[float, Meta(ge=0.1, le=3_600)],
        Meta(
            description="First pause of an account after a rate limit error, in seconds. The pause doubles each time."
        ),
    ] = 4.0
    rate_limit_max_seconds: Annotated[
        Annotated[float, Meta(ge=0.1, le=86_400)],
        Meta(description="Maximum of these doubling pauses, in seconds."),
    ] = 60.0
    max_interactive: Annotated[
        Slots, Meta(description="Maximum number of open interactive agents. They do not count toward max_concurrent.")
    ] = 100


class Watchdogs(Section, frozen=True):
    """Limits at which fleet stops an agent. A task's own limits, a JSON object with these names, have priority."""

    first_event_seconds: Annotated[
        OffOrSeconds,
        Meta(
            description="Stop an agent that has produced no output this many seconds after its start. 0 disables "
            "this limit."
        ),
    ] = 120
    silence_seconds: Annotated[
        OffOrSeconds,
        Meta(
            description="Stop an agent after this many seconds without output, transcript changes or CPU use. 0 "
            "disables this limit."
        ),
    ] = 900
    wall_seconds: Annotated[Seconds, Meta(description="Stop an agent that has run for this many seconds.")] = 14_400
    result_grace_seconds: Annotated[
        Seconds, Meta(description="Stop an agent that still runs this many seconds after its result.")
    ] = 30
    limit_seconds: Annotated[
        Seconds,
        Meta(
            description="Stop an agent whose requests were all refused for this many seconds.\n"
            "fleet waits instead of the coder."
        ),
    ] = 30
    stop_grace_seconds: Annotated[
        Seconds,
        Meta(
            description="Number of seconds that an agent has to exit after a stop request.\nfleet then kills the agent."
        ),
    ] = 10
    max_tokens: Annotated[
        Tokens | None,
        Meta(description="Stop an agent that has used this many tokens. Default: no limit."),
    ] = None
    max_cost_usd: Annotated[
        Annotated[float, Meta(ge=0.01, le=1_000_000)] | None,
        Meta(
            description="Stop an agent that has cost this many dollars, and start none without a known price.\n"
            "Default: no limit."
        ),
    ] = None


class SupervisorSettings(Section, frozen=True):
    """Settings of the supervisor."""

    poll_seconds: Annotated[
        Annotated[float, Meta(ge=0.1, le=3_600)],
        Meta(description="Interval between checks for unannounced work, in seconds."),
    ] = 2
    claim_seconds: Annotated[
        Annotated[int, Meta(ge=3, le=86_400)], Meta(description="Duration of a claim that is not renewed, in seconds.")
    ] = 60
    start_interval_seconds: Annotated[
        Annotated[float, Meta(ge=0, le=60)],
        Meta(description="Pause between starts, in seconds. It applies after 25 starts without a pause."),
    ] = 0.25
    min_free_disk_mb: Annotated[
        Annotated[int, Meta(ge=0, le=10**9)],
        Meta(description="Minimum free disk space, in MB. fleet starts nothing new with less."),
    ] = 1_024
    min_free_memory_mb: Annotated[
        Annotated[int, Meta(ge=0, le=10**9)],
        Meta(description="Minimum available memory, in MB. fleet starts nothing new with less."),
    ] = 512
    max_output_mb: Annotated[
        Annotated[int, Meta(ge=1, le=10**6)], Meta(description="Maximum amount of output to keep from each run, in MB.")
    ] = 512
    raw_days: Annotated[
        Annotated[int, Meta(ge=1, le=3650)],
        Meta(
            description="Number of days to keep the raw output of a finished run.\n"
            "fleet keeps all other data of the run."
        ),
    ] = 30
