"""The home, the supervisor and the machine: status, settings, health, hosts, backup and updates.

accounts        accounts
archive         the archive file of a backup
attention       items that need a person, most urgent first, with the commands to type next
backup          backups of a home in one file, written while fleet runs
coders          coders
demo            a demo
dialogs         folder trust dialogs of coders
doctor          checks of a home and its machine, each with a remedy
fetch           transfer from other hosts
home_files      reading files of the home
homes           creation and repair of the home
hosts           hosts that share this queue
main            the supervisor process of a home, from start to stop
other_hosts     work and runs of other hosts, as recorded in the shared database
outlook         counts of the waiting tasks, and the reasons why they do not start
overview        the overview
projects        projects of fleet
queue_move      moving all tasks and their history between kinds of queue
restore         restoring a backup into a home
settings        reading, changing and validating settings
start_progress  following new tasks until their agents work, or until it is known why they do not start
supervisor      control of the supervisor process
trust           showing what a repository would run, and trusting it
update          updates of fleet with the installer that installed it, after a check
"""
