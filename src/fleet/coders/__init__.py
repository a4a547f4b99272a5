"""The coders a task may name: the word a user types, and what it stands for."""

from __future__ import annotations

from fleet.core.errors import BadInput, FleetError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from fleet.coders.base import Coder
    from fleet.config import Settings

#: Where the adapter of each name lies.
CODERS: dict[str, str] = {
    "agy": "fleet.coders.agy:AgyCoder",
    "claude": "fleet.coders.claude:ClaudeCoder",
    "codex": "fleet.coders.codex:CodexCoder",
    "copilot": "fleet.coders.copilot:CopilotCoder",
    "demo": "fleet.coders.demo:DemoCoder",
    "gemini": "fleet.coders.gemini:GeminiCoder",
    "opencode": "fleet.coders.opencode:OpencodeCoder",
    "pi": "fleet.coders.pi:PiCoder",
    "qwen": "fleet.coders.qwen:QwenCoder",
}
ALIASES = {"codecs": "codex"}


def known(name: str, *, described: Collection[str] = ()) -> str:
    """The coder this name means: a built-in, one described in settings, or an import string. Raises BadInput."""
    name = ALIASES.get(name, name)
    if name in CODERS or name in described or ":" in name:
        return name
    choices = sorted({*CODERS, *described})
    from difflib import get_close_matches  # costs a regex engine: only to help with a typing error

    near = get_close_matches(name, choices, n=1)
    raise BadInput(
        f"unknown coder {name!r}",
        hint=(f"did you mean {near[0]!r}? " if near else "")
        + f"coders: {', '.join(choices)}, or an import string pkg.mod:Class.",
    )


def load(name: str, settings: Settings | None = None) -> Coder:
    """The coder of this name: one that the settings describe, a built-in, or an import string pkg.mod:Class.

    Raises BadInput for a name or a description that is wrong, FleetError where the coder cannot be had.
    """
    own = settings.coders if settings is not None else {}
    name = known(name, described=own)
    if name in own and own[name].argv:
        from fleet.coders.command import CommandCoder

        return CommandCoder(name, own[name])
    if name not in CODERS and ":" not in name:
        raise FleetError(
            f"coder {name!r} has settings, but no argv that says how to start it",
            hint=f"describe it, see docs/howto/add-a-coder.md, or choose another: {', '.join(sorted(CODERS))}.",
        )
    from fleet.coders.base import Coder

    made = _imported(CODERS.get(name, name))()
    if not isinstance(made, Coder):
        raise FleetError(
            f"{name!r} is no coder: it is no fleet.coders.base.Coder", hint="see docs/howto/add-a-coder.md."
        )
    if ":" in name:
        made.name = name  # what finds it again: in the settings, and for a run that is gone on with
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
