"""The Tool type: name, description, arguments and call. The schema is derived from the arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from fleet.core.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fleet.assembly import Fleet
    from fleet.mcp.context import ToolContext

    Answer = dict[str, Any]
    #: Reports the progress of a long call: an increasing number and a short text.
    Tell = Callable[[float, str], Awaitable[None]]


class Given(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of a call, and the base class of every tool's arguments."""


class Tool(NamedTuple):
    """A tool of the server."""

    name: str
    about: str
    given: type[Given]
    call: Callable[[ToolContext, Any, Tell], Awaitable[Answer]]
    reads_only: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        (_,), parts = msgspec.json.schema_components([self.given], ref_template="#/$defs/{name}")
        own = parts.pop(self.given.__name__)
        own = {name: value for name, value in own.items() if name not in ("title", "description")}
        return own | ({"$defs": parts} if parts else {})

    def read(self, arguments: dict[str, Any] | None) -> Given:
        """Return a call's arguments. Raises BadInput with the error and the valid names."""
        try:
            # Models sometimes write "600" instead of 600.
            return msgspec.convert(arguments or {}, self.given, strict=False)
        except msgspec.ValidationError as error:
            names = ", ".join(field.encode_name for field in msgspec.structs.fields(self.given))
            raise BadInput(f"{self.name}: {_said(str(error))}", hint=f"it takes: {names or 'nothing'}") from error


def off_loop(
    work: Callable[[ToolContext, Fleet, Any], Answer],
) -> Callable[[ToolContext, Any, Tell], Awaitable[Answer]]:
    """Return a tool call that runs `work` in a thread, so that other calls need not wait for the store."""

    async def call(desk: ToolContext, given: Any, _tell: Tell) -> Answer:
        return await desk.ask(lambda fleet: work(desk, fleet, given))

    return call


def _said(message: str) -> str:
    return message[:1].lower() + message[1:]
