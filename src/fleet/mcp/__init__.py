"""The MCP server: fleet's actions as tools for agents, over stdin and stdout."""
