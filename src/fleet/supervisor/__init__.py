"""The supervisor: claim tasks, run agents, recover runs, and keep the home in order.

Imports everything below assembly. Used by assembly and actions.

admission_inputs  the facts that admission needs
agent_files       files in folders where agents can write
agent_launchers   the launchers of a supervisor's agents
answers           answers that users write into Q&A.md, recorded like answers given with `fleet answer`
coder_files       project files from which coders run commands without asking
collision_radar   the conflict radar
context           settings and counters shared by the supervisor's runs
give_back         tasks that go back to the queue uncounted
hand_edits        edits of users in `task.json`, taken into the task
host              this host among those that share a queue
lock              one supervisor per home
logins            logins of coders
logs              the supervisor's log
loop              the supervisor
presence          the row in which a host shows itself to other hosts
questions_file    Q&A.md
recovery          runs that no supervisor follows
relocation        a home that was moved
removal           remove worktrees for all callers
retention         raw output of ended runs
room              detect that an operation failed because a disk is full
start_report      reports of a background supervisor about its start, sent through a pipe to the command that started
store_calls       calls of the store from the event loop
strays            live agents whose run is missing in the database or recorded as ended
task_folder       a task's folder
task_json         `task.json`
trust             trust in repositories
run/              one run
"""
