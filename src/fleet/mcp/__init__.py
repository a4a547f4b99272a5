"""The MCP server: fleet's actions as tools of an agent, over stdin and stdout."""
