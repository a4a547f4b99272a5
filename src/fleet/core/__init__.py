"""Nouns and pure decisions: frozen records, and the rules that need nothing but them.

Imports nothing else of fleet. Used everywhere.

accounts       choose accounts, and park them at limits
admission      decide how many agents may start now
bd_limits      sizes that bd can store
branch         allowed branch names, and the names of a batch
budget         limits on what runs may spend
checks         check a task's fields
clock          times in the program and in the database
dependency     dependencies between tasks, and which of them block
errors         the errors that callers can meet
event          what an agent said or did, for any coder
filter         conditions that select tasks
finding        judge the evidence about a run
globs          globs for paths in a repository
health         results of health checks, with remedies
host           check if a host fits a task
ids            task ids, unique ids and digests
jsontext       write JSON without the json module
matching       evaluate a filter's conditions in Python
outcome        decide how a run ended
patch          changes to a task, applied in one step
policy         decide where a task goes after a run
quoting        quote foreign text for prompts, screens and sentences
receipt        observations of a run, hashed and chained
record         frozen records that are quick to import
redaction      remove secrets from text
relocation     update records of a home that was moved
result_schema  the schema of what an agent hands in
rules          rules for one task's work
run            runs, messages, questions and accounts
task           tasks and the rules of their status
task_status    derive what to show of a task: phase, result, reason
verification   requests to verify a commit, and results
watchdog       decide when an agent must be stopped
when           parse times that people write
workflow       plans and records of workflows
workspace      the worktree of a task
"""
