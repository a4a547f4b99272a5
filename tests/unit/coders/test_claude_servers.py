"""Claude's report about its configured MCP servers."""

import json

from fleet.coders.claude.adapter import ClaudeCoder
from fleet.core.event import Kind

CLAUDE = ClaudeCoder()


def test_missing_mcp_server_is_reported() -> None:
    states = {"a": "connected", "b": "failed", "c": "needs-auth", "d": "pending"}
    servers = [{"name": name, "status": status} for name, status in states.items()]
    began, *missing = CLAUDE.parse(json.dumps({"type": "system", "subtype": "init", "mcp_servers": servers}))
    assert began.kind == Kind.SESSION_STARTED
    assert [(each.kind, each.text) for each in missing] == [
        (Kind.ERROR, "mcp server 'b' is not there: failed"),
        (Kind.ERROR, "mcp server 'c' is not there: needs-auth"),
    ]
