"""The coders a task may name: the word a user types, and what it stands for."""

from __future__ import annotations

from fleet.core.errors import BadInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

NAMES = ("claude", "codex", "agy", "gemini", "opencode", "qwen", "copilot", "pi")
ALIASES = {"codecs": "codex"}


def known(name: str, *, described: Collection[str] = ()) -> str:
    """The coder this name means: a built-in, one described in settings, or an import string. Raises BadInput."""
    name = ALIASES.get(name, name)
    if name in NAMES or name in described or ":" in name:
        return name
    choices = sorted({*NAMES, *described})
    from difflib import get_close_matches  # costs a regex engine: only to help with a typing error

    near = get_close_matches(name, choices, n=1)
    raise BadInput(
        f"unknown coder {name!r}",
        hint=(f"did you mean {near[0]!r}? " if near else "")
        + f"coders: {', '.join(choices)}, or an import string pkg.mod:Class.",
    )
