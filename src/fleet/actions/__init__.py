"""What users and agents can do, whatever interface they use.

Imports everything below the interfaces. Used by cli, bd and mcp, which only parse, call one action, and print.

control/    the home, its supervisor, settings, hosts, health and backups
merge/      merges into a branch, conflict tasks and pull requests
proof/      receipts, new verifications, comparisons, picks and statistics
tasks/      tasks, their questions and messages, and the rights of runs
workers/    workers and workflows as callers over MCP create and watch them
worktrees/  agents on branches: list, view, stop, repair and remove
"""
