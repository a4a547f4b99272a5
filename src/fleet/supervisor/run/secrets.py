"""The environment of an account: variables from its settings, and secrets from commands such as `op` or `doppler`."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError

if TYPE_CHECKING:
    from fleet.settings.sections import AccountSettings

COMMAND_SECONDS = 30.0
KEPT_SECONDS = 300.0
LONGEST_SECRET = 64 * 1024


class SecretRefused(FleetError):
    """A secret of an account is unavailable."""


class Secrets:
    """A cache of the secrets of accounts.

    It asks each command at most every five minutes, as many agents start at once.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[float, tuple[object, ...], dict[str, str]]] = {}
        self._asking = asyncio.Lock()

    async def of(self, account: AccountSettings) -> dict[str, str]:
        """Return the variables of an account. Raises SecretRefused, whose text never contains a secret."""
        if not account.secrets:
            return dict(account.env)
        key, commands = (account.coder, account.name), tuple(account.secrets.items())
        async with self._asking:
            known = self._known.get(key)
            if known is None or known[0] < time.monotonic() or known[1] != commands:
                told = {name: await _told(account, name, tuple(argv)) for name, argv in account.secrets.items()}
                known = (time.monotonic() + KEPT_SECONDS, commands, told)
                self._known[key] = known
        return {**account.env, **known[2]}

    def forget(self, coder: str, name: str) -> None:
        """Ask again next time, because the secret did not work."""
        self._known.pop((coder, name), None)


async def _told(account: AccountSettings, variable: str, argv: tuple[str, ...]) -> str:
    said = f"{variable} of account {account.name!r} of {account.coder}"
    hint = f"run {argv[0]} … yourself: it must print the value in its first line"
    try:
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
    except (OSError, ValueError) as error:
        raise SecretRefused(f"{said}: {argv[0]} cannot be started: {error}", hint=hint) from error
    try:
        async with asyncio.timeout(COMMAND_SECONDS):
            assert process.stdout is not None
            text = await process.stdout.read(LONGEST_SECRET)
            status = await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise SecretRefused(f"{said}: {argv[0]} did not answer in {COMMAND_SECONDS:g} s", hint=hint) from None
    value = text.decode("utf-8", "replace").partition("\n")[0].strip()
    if status or not value or "\0" in value:
        raise SecretRefused(f"{said}: {argv[0]} ended with exit code {status} and no value", hint=hint)
    return value
