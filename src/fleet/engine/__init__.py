"""The supervisor: claim tasks, run agents, and decide the end of each run.

The supervisor and its host

supervisor       claim tasks, follow runs, and survive the failure of any run
context          settings and counters that runs share
store_calls      calls of the store from the event loop
situation        the facts that admission needs
single           the lock of a home's supervisor
hosting          the name, labels and options of this host
presence         the host's row in the queue
renewing         renewal of claims
recovery         runs and agents that no supervisor follows
strays           live agents without a live run in the database
relocating       homes that were moved
start_report     reports of a background supervisor about its start
logs             the supervisor's log

One run

runner           start a run, follow it, settle its task
starting         the steps of a start
workplace        the directory or worktree of a run
briefing         the token, messages and questions that a run gets
environment      the variables of an agent
live             the state of a run that is followed
fold             events folded into a run
signs            signs of life for watchdogs
typist           input to an agent's terminal
finishing        the steps of an end
conclusion       the evidence of a run
settling         the verdict, written in one transaction
giving_back      tasks that go back to the queue uncounted
lost_claim       runs whose claim is lost

The work of a run

work             a worktree as git sees it
commands         setup, teardown and verify commands
verifying        a verify command on a clean checkout
handing_on       the result for later tasks
removal          removal of worktrees
trusting         trust in repositories
coder_files      project files from which coders run commands

evidence/        what fleet itself sees of a run
scope/           where an agent may write
verify/          the parts of a verification
"""
