"""Nouns and pure decisions: frozen records, and the rules that need nothing but them.

Imports nothing else of fleet. Used everywhere.

accounts       the choice of accounts for runs, and the effect of limits on accounts
admission      how many agents of each kind may start now
bd_limits      limits of bd
branch         branch names
budget         budgets
checks         checks of a task's fields
clock          instants
dependency     dependencies between tasks
errors         the errors that callers can meet
event          events
filter         filters for tasks
finding        findings
globs          globs for paths in a repository
health         health checks, each with its remedy
host           checks of the requirements of tasks
ids            identifiers
jsontext       JSON text, written without the json module, whose import takes a third of a `bd` call
matching       conditions of `core.filter` that Python evaluates, because databases differ in letters, patterns and nu
outcome        the outcome of a run, derived from observations, because exit codes and an agent's words are not enough
patch          changes to a task, given in parts and applied in one step
policy         the policy for tasks after a run
quoting        foreign text, quoted for a prompt, for one line of a screen, or for a sentence
receipt        receipts
record         frozen records, like dataclasses but without that import, which takes longer than starting Python
redaction      removal of secrets from text before it is stored
relocation     relocation of a home to another path or host id
result_schema  the schema of what an agent hands in
rules          rules for one task's work, as given when the task was created
run            runs
task           tasks
task_status    the status of a task, derived from its records
verification   verifications
watchdog       when an agent must be stopped
when           instants as people write them
workflow       workflows
workspace      workspaces
"""
