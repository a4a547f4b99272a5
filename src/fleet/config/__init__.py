"""Settings: declared in `keys`, checked in `check`, laid over one another in `load`."""

from fleet.config.keys import HOME, KEYS, PROJECT, Key, Permissions
from fleet.config.load import DEFAULT, Origin, Settings, load, model_for, permissions_for

__all__ = [
    "DEFAULT",
    "HOME",
    "KEYS",
    "PROJECT",
    "Key",
    "Origin",
    "Permissions",
    "Settings",
    "load",
    "model_for",
    "permissions_for",
]
