"""Settings: declared in `keys`, checked in `check`, merged from files and environment in `load`."""

from fleet.config.keys import HOME, KEYS, PROJECT, Key, Permissions
from fleet.config.load import (
    DEFAULT,
    OF_SUPERVISORS,
    Origin,
    Settings,
    accounts_for,
    coder_settings,
    config_folder,
    described_coders,
    env_for,
    flags_for,
    load,
    model_for,
    permissions_for,
    program_for,
    window_for,
)

__all__ = [
    "DEFAULT",
    "HOME",
    "KEYS",
    "OF_SUPERVISORS",
    "PROJECT",
    "Key",
    "Origin",
    "Permissions",
    "Settings",
    "accounts_for",
    "coder_settings",
    "config_folder",
    "described_coders",
    "env_for",
    "flags_for",
    "load",
    "model_for",
    "permissions_for",
    "program_for",
    "window_for",
]
