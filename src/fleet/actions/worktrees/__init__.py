"""Agents and their worktrees: list, view, stop, repair and remove them.

agents     running agents
conflicts  conflicts between agents' branches, and the files involved
gc         removal of expired data
removal    removal of tasks' worktrees, here or by another host, with the commands that restore what was saved
repair     repair of worktrees, sessions, branches and tasks after a kill or manual changes, without losing anything
rows       the rows of `fleet list`
strays     strays
views      views of an agent
"""
