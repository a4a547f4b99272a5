"""The MCP server: fleet's actions as tools for agents, over stdin and stdout.

Imports actions and everything below. Nothing imports it but the command that starts it.

batching         handle items together that arrive during a batch
context          the home, the caller and threads of all tools
server           serve tools on stdin and stdout
tool             the class of a tool, with its schema
tools_tasks      fleet's tools for tasks
tools_waiting    tools that wait
tools_workers    codefleet's tools for workers
tools_workflows  codefleet's tools for workflows
"""
