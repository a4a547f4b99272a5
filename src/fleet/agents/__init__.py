"""Launchers of agents, and the shim that is the parent of each agent.

Imports core and files. Used through `base`; only assembly imports a launcher.

base          the port `Launcher`
detached      start programs that outlive their parent
headless      launch agents without a terminal
lock          the lock of a run's folder, held while its agent lives
shim_client   ask a shim through its control socket
shim_link     reach a run's folder: exit record and control socket
tmux          launch agents in terminals
tmux_command  call tmux, and name its sessions
shim/         the parent process of one agent
"""
