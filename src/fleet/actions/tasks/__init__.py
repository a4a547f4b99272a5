"""Tasks: create, change and delete them, ask about them, and send messages to their agents.

bounds        limits on the tasks that a run creates
branch_base   resolve the start commit of a new branch
create        create tasks with their own branch and worktree
deletion      delete tasks permanently
dependencies  add, remove and show dependencies between tasks
hand_edits    apply a user's changes to `task.json`
interchange   export and import tasks
jsonl         parse lines of bd's JSONL
messages      send messages to agents, and watch their delivery
names         find the tasks that a word in a command means
placement     choose which hosts may run a new task
questions     list what agents wait for, and record answers
rights        check what a run may read and change
rules         check the rules of a task before anything is written
runs          list the runs of a task, and compare two of them
screens       read dialogs on agents' screens, and type a choice
tasks         create, change, claim and close tasks
wait          wait for tasks to end, with progress reports
"""
