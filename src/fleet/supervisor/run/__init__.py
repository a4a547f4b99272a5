"""One run: start it, follow it, end it, and settle its task.

briefing       what a run gets when it starts
commands       commands of the user that fleet runs
costs          budgets of runs, read from the store
end            collect the evidence of a run that has ended
environment    the environment of an agent
fold           fold events into a run
live           a run that is being followed
liveness       signs of life of an agent, by a clock that cannot be set
lost_claim     the end of a run whose claim is lost
output_reader  read the output of an agent
runner         one run
secrets        the environment of an account
settle         settle tasks
stage          tasks that are stages of a workflow
start          the start of a run in steps
typist         type into the terminal of an agent
work           the work in a task's worktree as git sees it, read through fleet's own view, never with an agent's sett
workplace      open the workspace of a task
"""
