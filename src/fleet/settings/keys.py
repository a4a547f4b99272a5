"""All settings with type, default, bounds and help. Files, messages and documents are generated from here."""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

import msgspec
from msgspec import Meta

from fleet.settings.kinds import CoderName, Line, ModelGlob, Permissions, QueueName, Section, Slots, Words
from fleet.settings.project_sections import FindingSettings, Merge, Ports, Project, SaveSettings, Setup, Tmux, Verify
from fleet.settings.project_sections import ScopeSettings as Scoped
from fleet.settings.sections import (
    AccountSettings,
    AgentSettings,
    CoderSettings,
    Consent,
    HostSettings,
    LimitSettings,
    Price,
    SupervisorSettings,
    Watchdogs,
)

__all__ = [
    "ALIASES",
    "ANY",
    "DESCRIBING",
    "ELEMENTS",
    "FOREIGN",
    "HOME",
    "KEYS",
    "NAMED",
    "PROJECT",
    "RETIRED",
    "SCOPES",
    "SECRET",
    "UNUSED",
    "CoderName",
    "DeclaredSettings",
    "Path",
    "Permissions",
    "Scope",
    "SettingKey",
    "in_scope",
    "iterate_documented_keys",
    "wild",
]


class DeclaredSettings(Section, frozen=True):
    """All settings of fleet. `SCOPES` lists the settings that each file accepts."""

    max_concurrent: Annotated[
        Slots, Meta(description="Maximum number of headless agents that run at the same time.")
    ] = 3
    coder: Annotated[CoderName, Meta(description="Coder for tasks that do not name one.")] = "claude"
    model: Annotated[
        Line,
        Meta(
            description="Model for the default coder. Other coders use `[coders.<name>] model`, or their own default."
        ),
    ] = "sonnet"
    context_pressure_threshold_pct: Annotated[
        int,
        Meta(
            ge=1,
            le=100,
            description="Percentage of the context at which fleet ends a session.\n"
            "The task continues in a new session.",
        ),
    ] = 90
    permissions: Annotated[
        Permissions | None,
        Meta(
            description='"user": coders ask for permission according to their own settings. "skip": coders run every '
            "tool without asking.\n"
            '"skip" takes effect only after `fleet init --permissions skip`. Default: "user".'
        ),
    ] = None
    queue: Annotated[
        QueueName | None,
        Meta(
            description='Queue for tasks: "sqlite" (the default, in this home), "beads", or, for several hosts,\n'
            "postgresql://user:password@host/database. The variable FLEET_QUEUE overrides this setting."
        ),
    ] = None
    queue_command: Annotated[
        Words | None,
        Meta(
            description="Program that prints the connection string of the queue.\n"
            "fleet runs it only if `queue` is not set."
        ),
    ] = None
    project: Project = Project()
    agent: AgentSettings = AgentSettings()
    setup: Setup = Setup()
    verify: Verify = Verify()
    scope: Scoped = Scoped()
    findings: FindingSettings = FindingSettings()
    merge: Merge = Merge()
    ports: Ports = Ports()
    tmux: Tmux = Tmux()
    saving: SaveSettings = SaveSettings()
    limits: LimitSettings = LimitSettings()
    watchdog: Watchdogs = Watchdogs()
    supervisor: SupervisorSettings = SupervisorSettings()
    host: HostSettings = HostSettings()
    consent: Consent = Consent()
    coders: dict[CoderName, CoderSettings] = msgspec.field(default_factory=dict)
    accounts: Annotated[
        Annotated[tuple[AccountSettings, ...], Meta(title="a list of [[accounts]] tables")],
        Meta(description="Subscriptions and keys of coders. A coder without an account uses your own login."),
    ] = ()
    prices: dict[ModelGlob, Price] = msgspec.field(default_factory=dict)


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
        "queue",
        "queue_command",
        "agent",
        "ports",
        "tmux",
        "saving",
        "scope",
        "findings",
        "merge",
        "limits",
        "watchdog",
        "supervisor",
        "host",
        "consent",
        "coders",
        "accounts",
        "prices",
    ),
    PROJECT: (
        *("coder", "model", "permissions", "project", "agent", "setup", "verify", "scope", "findings", "merge"),
        *("ports", "tmux", "watchdog", "coders"),
    ),
}

Path = tuple[str, ...]
# The spellings of ai-fleet's documents, in sections and flat, so that its users can keep their files.
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
#: Other content of ai-fleet's files that fleet does not use: tables of its user file, and the repository's path.
UNUSED = ("defaults", "ui", "updates", "repo_root")
#: Keys that sermakarevich/fleet writes into a home's runtime.toml and that fleet does not use.
FOREIGN = frozenset(
    {"telegram_chat_id", "telegram_allowed_ids", "telegram_default_cwd", "log_root", "claim_poll_interval_sec"}
    | {"config_poll_interval_sec", "kill_poll_interval_sec", "shutdown_grace_sec", "status_log_interval_sec"}
    | {"retry_limit", "rate_limit_threshold_pct", "rate_limit_default_sleep_sec", "max_concurrent_overrides"}
    | {"opencode_ollama_url", "ollama_ssh_host", "ollama_remote_port", "opencode_default_model", "context_windows"}
    | {"opencode_bedrock_region", "opencode_bedrock_profile", "stall_warning_minutes", "stall_action"}
    | {"max_attempt_minutes", "continue_pack_max_bytes", "state_max_bytes", "compaction_enabled", "compaction_coder"}
    | {"compaction_model", "context_checkpoint_pct", "context_kill_pct", "isolation", "isolation_exclude"}
    | {"post_merge_command", "triage_interval_minutes", "gc_retention_days", "gc_archive_days"}
    | {"observer_max_followups", "observer_max_rounds", "job_gate", "job_child_coder", "job_child_model"}
    | {"job_max_children", "job_max_phase_attempts", "serve_cors_origins", "serve_host", "serve_port"}
)
#: Former settings of fleet that home files may still contain.
RETIRED = frozenset({("supervisor", "warm_commands")})
ANY = "<name>"
#: Tables whose keys are names that users choose, with the type of these names.
NAMED: dict[str, Any] = {"coders": CoderName, "prices": ModelGlob}
#: All projects share one tmux server, which has one configuration file.
HOME_ONLY: tuple[Path, ...] = (("tmux", "config"),)
#: Settings that may contain a password. They are never shown.
SECRET: tuple[Path, ...] = (("queue",),)
#: Settings that describe a coder belong to the home, so that tasks of every project can use the coder.
DESCRIBING = ("argv", "resume_argv", "prompt", "skip_flags", "pass_env", "config_env", "project_files", "output")


class SettingKey(NamedTuple):
    """A setting, for use in messages, files and documents."""

    path: Path
    type: Any
    default: Any
    help: str

    def shape(self) -> str:
        """Return a description of valid values."""
        return _shape(self.type)

    @property
    def kind(self) -> Any:
        """Return the underlying plain type: int, float, bool, str, tuple, dict, datetime or Literal."""
        return _kind(self.type)


def wild(path: Path) -> Path:
    """Return the declared form of a path, in which ANY replaces a name that the user chose."""
    return (path[0], ANY, *path[2:]) if path[0] in NAMED and len(path) > 1 else path


def in_scope(path: Path, scope: Scope) -> bool:
    """Return True if a file of this scope accepts the setting."""
    if scope == PROJECT and (path in HOME_ONLY or (path[0] == "coders" and path[2:3] and path[2] in DESCRIBING)):
        return False
    return path[0] in SCOPES[scope]


def iterate_documented_keys() -> Iterator[tuple[str, SettingKey]]:
    """Yield every setting with its documented name, including the keys of each list of tables."""
    for key in KEYS.values():
        yield ".".join(key.path), key
        for each in ELEMENTS.get(key.path, {}).values():
            yield f"{'.'.join(key.path)}[].{each.path[-1]}", each


def _keys(section: Any, above: Path) -> dict[Path, SettingKey]:
    found: dict[Path, SettingKey] = {}
    for field in msgspec.structs.fields(section):
        path, kind = (*above, field.name), field.type
        if get_origin(kind) is dict:
            found |= _keys(get_args(kind)[1], (*path, ANY))
        elif isinstance(kind, type) and issubclass(kind, Section):
            found |= _keys(kind, path)
        else:
            help_text = next(meta.description for meta in reversed(kind.__metadata__) if meta.description)
            default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
            found[path] = SettingKey(path, kind, None if default is msgspec.NODEFAULT else default, help_text)
    return found


def _elements() -> dict[Path, dict[str, SettingKey]]:
    lists = {path: get_args(get_args(key.type)[0])[0] for path, key in KEYS.items() if key.kind is tuple}
    sections = {path: kind for path, kind in lists.items() if isinstance(kind, type) and issubclass(kind, Section)}
    return {path: {each[-1]: key for each, key in _keys(kind, path).items()} for path, kind in sections.items()}


def _kind(kind: Any) -> Any:
    if get_origin(kind) in (tuple, dict, Literal):
        return get_origin(kind)
    options = [option for option in get_args(kind) if option is not type(None)]
    return _kind(options[0]) if options else kind


def _shape(kind: Any) -> str:
    if get_origin(kind) is Annotated:
        inner, *metas = get_args(kind)
        titles = [meta.title for meta in metas if meta.title]
        bounds = [(meta.ge, meta.le) for meta in metas if meta.ge is not None]
        if bounds:
            return f"a {'' if inner is float else 'whole '}number from {bounds[0][0]} to {bounds[0][1]}"
        return titles[-1] if titles else _shape(inner)
    options = [option for option in get_args(kind) if option is not type(None)]
    if get_origin(kind) is Literal:
        return " or ".join(f'"{option}"' for option in options)
    if get_origin(kind) is tuple:
        return f"a list, each {_shape(options[0])}"
    if options:
        return _shape(options[0])
    return {bool: "true or false", datetime: "a date and time"}.get(kind, "text")


KEYS: dict[Path, SettingKey] = _keys(DeclaredSettings, ())
#: The keys of each table in a list of tables.
ELEMENTS: dict[Path, dict[str, SettingKey]] = _elements()
