"""Launchers of agents, and the shim that is the parent of each agent.

Imports core, settings and files only. Used through `base` by the supervisor; only assembly imports a launcher.

base          the Launcher port
detached      start of detached programs
headless      the launcher of agents without a terminal
lock          the lock of a run's folder, held while anything of its agent lives
shim_client   client of a shim's control socket
shim_link     access to a run's folder
tmux          the launcher of agents in terminals
tmux_command  tmux as a command
shim/         the shim
"""
