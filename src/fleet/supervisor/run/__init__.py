"""One run: start it, follow it, end it, and settle its task.

briefing       gather what a run gets: token, messages, questions
commands       run setup, teardown and verify commands
costs          check budgets
end            the steps that end a run
environment    build the environment of an agent
fold           fold events into a run
live           the state of a run that is followed
liveness       watch for signs of life
lost_claim     end the record of a run whose claim is lost
output_reader  read new lines of an agent's output
runner         start a run, follow it, end it, settle its task
secrets        run the commands that print an account's secrets
settle         write the verdict on a run in one transaction
stage          start and settle stages of a workflow
start          the steps that start a run
typist         type into an agent's terminal
work           read what a task's worktree holds
workplace      open a task's directory or worktree
"""
