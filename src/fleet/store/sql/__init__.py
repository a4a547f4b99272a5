"""Ports of `fleet.store.base.Store`: one class for each noun, for any SQL database.

accounts    accounts, what their runs consumed, and quotas
claims      which supervisor or person works on a task
hosts       hosts, and the last events of runs for other hosts
messages    messages, questions and answers, and tokens of runs
receipts    receipts of runs, and branches that collide
records     convert rows to records of all kinds except tasks
rows        convert rows to tasks
runs        all attempts at tasks
search      find tasks by a filter
tasks       tasks with their labels, dependencies and comments
workflows   workflows, their stages and results
workspaces  worktrees with branch and ports, and what is trusted
"""
