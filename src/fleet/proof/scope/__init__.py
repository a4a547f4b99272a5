"""Scope: where an agent may write, and how fleet detects writes elsewhere.

bounds     where a run may write, and who owns other places
expansion  expand the words of a shell command without running it
git_line   what a git command changes outside of its worktree
line       follow the commands of a shell line
lookout    report tool calls that are out of bounds
planted    find what an agent planted in a git folder
primary    compare the user's checkout before and after a run
programs   what well-known programs write or delete
shell      split a shell line into commands
"""
