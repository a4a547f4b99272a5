"""What the settings say about one coder."""

import os
import shlex

from fleet.config.load import Settings
from fleet.config.sections import AccountSettings, CoderSettings
from fleet.core.accounts import accounts_of

CLAUDE = "claude"


def coder_settings(settings: Settings, coder: str) -> CoderSettings:
    """The table of a coder; the defaults where it has none."""
    return settings.coders.get(coder) or CoderSettings()


def flags_for(settings: Settings, coder: str) -> tuple[str, ...]:
    """The user's own options for a coder's program."""
    old = shlex.split(settings.agent.claude_flags or "") if coder == CLAUDE else []
    return (*coder_settings(settings, coder).flags, *old)


def env_for(settings: Settings, coder: str) -> dict[str, str]:
    """What agents of a coder get from the settings: what every agent gets, and over it the coder's own."""
    return {**settings.agent.env, **coder_settings(settings, coder).env}


def program_for(settings: Settings, coder: str) -> str:
    """The program to start in place of a coder's own; empty where its own is meant."""
    # Not Path.expanduser: it raises where there is no home directory.
    return os.path.expanduser(coder_settings(settings, coder).program or "")  # noqa: PTH111


def window_for(settings: Settings, coder: str) -> int | None:
    """How many tokens fit into the context, where the user says so; it counts before what the coder tells."""
    return coder_settings(settings, coder).context_limit


def accounts_for(settings: Settings, coder: str) -> tuple[AccountSettings, ...]:
    """Return the accounts of a coder in the order in which they are used."""
    return accounts_of(settings.accounts, coder)


def config_folder(account: AccountSettings) -> str:
    """Where the login of an account lies; empty where it is the coder's usual place."""
    return os.path.expanduser(account.config_dir or "")  # noqa: PTH111


def described_coders(settings: Settings) -> tuple[str, ...]:
    """The coders that the settings describe, by name."""
    return tuple(name for name, own in settings.coders.items() if own.argv)
