"""Scope: where an agent may write, and how fleet detects writes elsewhere.

bounds     bounds
expansion  expand the words of a command as a shell would, as far as possible without running anything
git_line   effects of a git command outside of its worktree
line       follow a command line from its start
lookout    the lookout
planted    changes that an agent could plant in a repository's git folder
primary    the user's own checkout before and after a run
programs   effects of well-known programs on files, by their arguments
shell      parse shell lines as data
"""
