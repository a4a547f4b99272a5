"""Agents and their worktrees: list, view, stop, repair and remove them.

agents     list and stop agents; close and retry their tasks
conflicts  find conflicts between agents' branches
gc         remove expired output, worktrees and saved work
removal    remove worktrees, and print how to restore saved work
repair     bring worktrees, sessions, branches and tasks in line
rows       the rows of `fleet list`
strays     find live agents whose run is not recorded as live
views      show an agent's terminal, events and changes
"""
