"""Scope: where an agent may write, and how fleet detects writes elsewhere.

The first group judges an agent's tool calls before it knows their effect. The second compares states before and after.

bounds      the places of a run, their owners, and how serious a write there is
lookout     the findings in the calls of an agent's tools
tools       the command lines and files in a tool call
line        a command line, followed command by command
shell       the parser of command lines
expansion   variables, braces and paths in a command line
wrappers    commands that run other commands
programs    the effects of well-known programs
git_line    the effects of git commands
patch       the files in a patch
noting      the findings, kept with the run
words       quotes of an agent's texts

paths       changed files, compared with the globs of a task
primary     the user's own checkout before and after a run
planting    refs and files that an agent could plant in the git folder
"""
