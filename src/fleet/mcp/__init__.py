"""The MCP server: fleet's actions as tools for agents, over stdin and stdout.

Imports actions and everything below. Nothing imports it but the command that starts it.

batching         batching of work
context          shared state of all tools
server           the tool server on stdin and stdout
tool             the Tool type
tools_tasks      fleet's own tools for tasks
tools_waiting    tools that wait, without holding a thread
tools_workers    codefleet's tools for workers, with codefleet's names, parameters and answers
tools_workflows  codefleet's tools for workflows, with codefleet's names, parameters and answers
"""
