"""The supervisor: claim tasks, run agents, recover runs, and keep the home in order.

Imports everything below assembly. Used by assembly, actions and `fleet run`.

admission_inputs  gather the facts that admission needs
agent_files       open files in folders where agents can write
agent_launchers   keep the launchers of this supervisor's agents
answers           take answers that users write into Q&A.md
coder_files       find project files from which coders run commands
collision_radar   check which branches collide while they grow
context           settings and counters that all runs share
give_back         give tasks back to the queue uncounted
hand_edits        take users' changes to `task.json` into the task
host              this host's name and what it offers
lock              allow one supervisor per home
logins            find out if a coder has a login
logs              write the supervisor's log
loop              claim tasks, follow their runs, survive failures
presence          update the row that shows this host to others
questions_file    read and write Q&A.md
recovery          take over runs that no supervisor follows
relocation        update a home that was moved
removal           remove worktrees: save, then delete
retention         delete old raw output
room              recognize a full disk
start_report      report the start of a background supervisor
store_calls       call the store from the event loop
strays            adopt live agents whose run is not recorded as live
task_folder       read and write a task's folder
task_json         write `task.json`, and recognize changes in it
trust             check that the user trusts a repository
run/              one run, from its start to its settled task
"""
