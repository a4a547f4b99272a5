"""Coders: one adapter for each agent product, and what all of them share.

Imports core, settings and files. Used through `base`; the registry imports a product when a task names it.

agy            Antigravity's `agy`
base           the port `Coder`
command        read the output of a coder that settings describe
copilot        GitHub Copilot CLI
dialogs        answer a coder's first questions in its own files
gemini         Gemini CLI
opencode       OpenCode
pi             Pi
prompt         the prompt that every coder gets
qwen           Qwen Code
refusals       read from a message when a limit ends
said           read malformed output as empty values
screen_dialog  read the dialog on a coder's screen
claude/        Claude Code
codex/         Codex
demo/          the demo coder
"""

from __future__ import annotations

from fleet.core.errors import BadInput, FleetError, closest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from fleet.coders.base import Coder
    from fleet.settings import Settings

#: Import string of the adapter for each coder name.
CODERS: dict[str, str] = {
    "agy": "fleet.coders.agy:AgyCoder",
    "claude": "fleet.coders.claude.adapter:ClaudeCoder",
    "codex": "fleet.coders.codex.adapter:CodexCoder",
    "copilot": "fleet.coders.copilot:CopilotCoder",
    "demo": "fleet.coders.demo.adapter:DemoCoder",
    "gemini": "fleet.coders.gemini:GeminiCoder",
    "opencode": "fleet.coders.opencode:OpencodeCoder",
    "pi": "fleet.coders.pi:PiCoder",
    "qwen": "fleet.coders.qwen:QwenCoder",
}
ALIASES = {"codecs": "codex"}


def known(name: str, *, described: Collection[str] = ()) -> str:
    """Return the coder that `name` refers to: a built-in, one described in the settings, or an import string.

    Aliases are resolved. Raises BadInput if the name is unknown.
    """
    name = ALIASES.get(name, name)
    if name in CODERS or name in described or ":" in name:
        return name
    choices = sorted({*CODERS, *described})
    near = closest(name, choices)
    raise BadInput(
        f"unknown coder {name!r}",
        hint=(f"did you mean {near[0]!r}? " if near else "")
        + f"coders: {', '.join(choices)}, or an import string pkg.mod:Class.",
    )


def load(name: str, settings: Settings | None = None) -> Coder:
    """Load the coder named `name`: described in the settings, built-in, or an import string pkg.mod:Class.

    Raises BadInput if the name or its description is invalid. Raises FleetError if the coder cannot be loaded.
    """
    own = settings.coders if settings is not None else {}
    name = known(name, described=own)
    if name in own and own[name].argv:
        from fleet.coders.command import CommandCoder

        return CommandCoder(name, own[name])
    if name not in CODERS and ":" not in name:
        raise FleetError(
            f"coder {name!r} has settings but no argv",
            hint=f"add an argv (see docs/howto/add-a-coder.md), or choose another coder: {', '.join(sorted(CODERS))}",
        )
    from fleet.coders.base import Coder

    made = _imported(CODERS.get(name, name))()
    if not isinstance(made, Coder):
        raise FleetError(
            f"{name!r} is not a coder: it does not subclass fleet.coders.base.Coder",
            hint="see docs/howto/add-a-coder.md",
        )
    if ":" in name:
        made.name = name  # the settings and a resumed run find the coder by this name
    return made


def _imported(place: str) -> type:
    from importlib import import_module  # a command that only names a coder imports no adapter

    module, _, attribute = place.partition(":")
    if not all(part.isidentifier() for part in [*module.split("."), attribute]):
        raise BadInput(f"{place!r} is not an import string", hint="write pkg.mod:Class")
    try:
        found = getattr(import_module(module), attribute, None)
    except ImportError as error:
        raise FleetError(
            f"coder {place!r} cannot be imported: {error}", hint="install it in the environment of fleet"
        ) from error
    if not isinstance(found, type):
        raise FleetError(f"coder {place!r}: {module} has no class {attribute}", hint="write pkg.mod:Class")
    return found
