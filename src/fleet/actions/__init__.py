"""What users and agents can do, whatever interface they use.

Imports everything below the interfaces. Used by cli, bd and mcp, which only parse, call one action, and print.

control/    the home, the supervisor and the machine
merge/      merging
proof/      proof for users
tasks/      tasks
workers/    workers and workflows as MCP callers create and watch them
worktrees/  agents and their worktrees
"""
