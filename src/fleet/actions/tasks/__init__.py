"""Tasks: create, change and delete them, ask about them, and send messages to their agents.

bounds        limits on the tasks that a run creates
branch_base   the start commits of new branches, resolved from a branch, a tag, a commit, or nothing
create        creation of tasks with their own branch and worktree
deletion      permanent deletion of tasks, and its effects on related tasks
dependencies  dependencies between tasks
hand_edits    manual edits to `task.json` of waiting tasks, applied when the task is read
interchange   import and export of tasks
jsonl         parser for lines of bd's JSONL
messages      messages to agents while they work
names         the meaning of names in commands
placement     the placement of new tasks on hosts that share a queue
questions     everything that agents wait for
rights        the rights of a run
rules         the rules of a task from command-line options, checked before anything is written
runs          the runs of a task, and two of them side by side
screens       dialogs on the screens of agents
tasks         creating, changing, claiming and closing tasks
wait          waiting for tasks to end, with progress reports
"""
