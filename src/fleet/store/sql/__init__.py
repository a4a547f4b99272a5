"""Ports of `fleet.store.base.Store`: one class for each noun, for any SQL database.

search       tasks chosen by a filter
tasks        tasks with their labels, dependencies and comments
claims       who works on what, and until when
tokens       tokens that identify the calls of a run
runs         all attempts at a task
messages     messages to agents, and their questions
accounts     accounts of coders, their totals, their quotas
receipts     receipts of runs, and collisions of branches
workflows    workflows, their stages and results
hosts        hosts, and the last events of runs
workspaces   worktrees, branches and ports, and trust
rows         conversion of rows of tasks, imported by each call of `bd`
records      conversion of all other rows
"""
