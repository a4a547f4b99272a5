"""The coders a task may name: the word a user types, and what it stands for."""

from __future__ import annotations

from fleet.core.errors import BadInput, FleetError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from fleet.coders.base import Coder

NAMES = ("claude", "codex", "agy", "gemini", "opencode", "qwen", "copilot", "pi", "demo")
ALIASES = {"codecs": "codex"}

#: Where the adapter of each name lies, for those that exist.
CODERS: dict[str, str] = {
    "demo": "fleet.coders.demo:DemoCoder",
}


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


def load(name: str) -> Coder:
    """The coder of this name, or of an import string pkg.mod:Class. Raises BadInput, or FleetError where it is not."""
    name = known(name)
    if name not in CODERS and ":" not in name:
        raise FleetError(
            f"coder {name!r} is not there yet",
            hint=f"coders that work: {', '.join(sorted(CODERS))}, or an import string pkg.mod:Class of your own.",
        )
    from fleet.coders.base import Coder

    made = _imported(CODERS.get(name, name))()
    if not isinstance(made, Coder):
        raise FleetError(
            f"{name!r} is no coder: it is no fleet.coders.base.Coder", hint="see docs/howto/add-a-coder.md."
        )
    return made


def _imported(place: str) -> type:
    from importlib import import_module  # a command that only names a coder loads none

    module, _, attribute = place.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), attribute]):
        raise BadInput(f"{place!r} is not an import string", hint="write pkg.mod:Class.")
    try:
        found = getattr(import_module(module), attribute, None)
    except ImportError as error:
        raise FleetError(
            f"coder {place!r} cannot be imported: {error}", hint="install it where fleet is installed."
        ) from error
    if not isinstance(found, type):
        raise FleetError(f"coder {place!r}: {module} has no class {attribute}", hint="write pkg.mod:Class.")
    return found
