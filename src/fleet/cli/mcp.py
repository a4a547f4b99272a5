"""`fleet mcp`: the tools of fleet for an agent, over stdin and stdout."""

import asyncio
import contextlib
import logging
import os
import sys

import click

from fleet.actions.control import homes
from fleet.core.errors import FleetError
from fleet.home import find

try:
    from fleet.mcp.context import ToolContext
    from fleet.mcp.server import serve
except ModuleNotFoundError as error:
    if (error.name or "").split(".")[0] not in ("mcp", "mcp_types"):
        raise
    MISSING = True
else:
    MISSING = False


@click.command()
def mcp() -> None:
    """Serve fleet's tools to an agent over stdin and stdout.

    To add this server to claude, run `claude mcp add fleet -- fleet mcp`. The server creates the home if it does not
    exist, and starts a supervisor. Agents continue when the server ends.
    """
    if MISSING:
        raise FleetError(
            "the MCP SDK is not installed",
            hint="install fleet-agents with its extra mcp: `uv tool install '.[mcp]'` in a clone",
        )
    if sys.stdin.isatty():
        click.echo(
            "this is an MCP server on stdin and stdout for agents, see docs/howto/use-from-an-agent.md", err=True
        )
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="fleet mcp: %(message)s")
    logging.getLogger("mcp").setLevel(logging.WARNING)
    home = find()
    if homes.ensure(home):
        click.echo(f"fleet home initialized at {home.root}", err=True)
    desk = ToolContext(home, os.environ)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(desk))
