"""The ports of `fleet.store.base.Store`: a class for each noun, over any SQL database.

search       tasks chosen by a filter
tasks        tasks with their labels, dependencies and comments
claims       who works on what, and until when
tokens       what tells runs from others
runs         every attempt at a task
messages     messages to agents, and their questions
accounts     accounts of coders, what they took, their quotas
receipts     receipts of runs, and collisions of branches
workflows    workflows, their stages and results
hosts        hosts, and the last events of runs
workspaces   worktrees, branches and ports, and what is trusted
rows         rows of tasks and records, for every call of `bd`
records      rows and records of all else
"""
