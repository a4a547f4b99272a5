"""The home, the supervisor and the machine: status, settings, health, hosts, backup and updates.

accounts        show the accounts of coders, and unpark them
archive         read and write the archive file of a backup
attention       rank what needs a person, with the command to type next
backup          write a backup of a home while fleet runs
coders          show each coder's version, login and abilities
demo            run sample tasks on a sample repository in a separate home
dialogs         trust fleet's worktrees in coders' files, so that no agent asks
doctor          check a home and its machine, with a remedy for each fault
fetch           transfer a branch and events from another host
home_files      read files of the home that an agent may have replaced
homes           create and repair the home
hosts           list, drain, undrain and forget hosts that share the queue
main            run the supervisor process of a home, from start to stop
other_hosts     tell work of other hosts from work of this host
outlook         count waiting tasks, and say why they do not start
overview        what `fleet status` shows
projects        write a repository's settings file
queue_move      move all tasks and their history to another queue
restore         restore a backup into a home
settings        read, change and validate settings
start_progress  follow new tasks until their agents work
supervisor      start, stop, restart and pause the supervisor
trust           show what a repository would run, and trust it
update          update fleet with the installer that installed it
"""
